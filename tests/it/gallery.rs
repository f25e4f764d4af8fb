//! The gallery by the evaluator: every challenge's program against its plain-Rust reference, at all its sizes.

use girih::challenge::challenges;
use girih::check::evaluate;
use girih::subject::Subject;
use girih_examples as _;

#[test]
fn every_program_computes_what_its_reference_says() {
    let mut wrong = Vec::new();
    for challenge in challenges() {
        let subject = match Subject::of_challenge(&challenge) {
            Ok(subject) => subject,
            Err(e) => {
                wrong.push(e);
                continue;
            }
        };
        for (number, sizes) in subject.check_sizes(1).iter().enumerate() {
            let result = subject.call(sizes, number as u64).and_then(|call| subject.verify(&call, &evaluate(&subject, &call)?, None));
            wrong.extend(result.err().map(|e| format!("{} at {sizes}: {e}", challenge.slug)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
