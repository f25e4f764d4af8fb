// A view in memory: its first element, bytes of an element, and for each axis a length and a stride in elements.
struct StridedView {
    const void* start;
    long long width;
    int axes;
    long long lens[MOST_AXES];
    long long strides[MOST_AXES];
};

// The search for a byte that two views have in common: whether multiples of strides, of the terms from one on, make a number.
struct SharedByte {
    int count;
    long long stride[2 * MOST_AXES + 2], times[2 * MOST_AXES + 2], most[2 * MOST_AXES + 3], divisor[2 * MOST_AXES + 3];
    int steps;

    void add(long long of, long long number)
    {
        if (of == 0 || number == 0)
            return;
        int at = 0;
        while (at < count && stride[at] > of)
            ++at;
        if (at == count || stride[at] != of) {
            for (int i = count++; i > at; --i) {
                stride[i] = stride[i - 1];
                times[i] = times[i - 1];
            }
            stride[at] = of;
            times[at] = 0;
        }
        times[at] += number;
    }

    void finish()
    {
        most[count] = divisor[count] = 0;
        for (int i = count - 1; i >= 0; --i) {
            most[i] = most[i + 1] + stride[i] * times[i];
            long long a = stride[i], b = divisor[i + 1];
            while (b != 0) {
                const long long rest = a % b;
                a = b;
                b = rest;
            }
            divisor[i] = a;
        }
    }

    // Also where the search takes too long.
    bool may_be(int at, long long rest)
    {
        if (rest < 0 || rest > most[at] || (divisor[at] != 0 && rest % divisor[at] != 0))
            return false;
        if (at == count)
            return true;
        const long long left = rest - most[at + 1], end = rest / stride[at] < times[at] ? rest / stride[at] : times[at];
        for (long long number = left > 0 ? (left + stride[at] - 1) / stride[at] : 0; number <= end; ++number)
            if (steps-- == 0 || may_be(at + 1, rest - number * stride[at]))
                return true;
        return false;
    }
};

// Whether two views, whose strides are not negative, have a byte in common; true where that takes too long to find out.
static bool may_share(const StridedView& a, const StridedView& b)
{
    long long reach = 0, other_reach = 0;
    SharedByte search = {};
    search.steps = MOST_STEPS;
    for (int k = 0; k < a.axes; ++k) {
        if (a.lens[k] <= 0)
            return false;
        reach += (a.lens[k] - 1) * a.strides[k] * a.width;
        search.add(a.strides[k] * a.width, a.lens[k] - 1);
    }
    for (int k = 0; k < b.axes; ++k) {
        if (b.lens[k] <= 0)
            return false;
        other_reach += (b.lens[k] - 1) * b.strides[k] * b.width;
        search.add(b.strides[k] * b.width, b.lens[k] - 1);
    }
    search.add(1, a.width - 1);
    search.add(1, b.width - 1);
    search.finish();
    const long long apart = (long long)((const char*)b.start - (const char*)a.start);
    if (apart >= reach + a.width || -apart >= other_reach + b.width)
        return false;
    return search.may_be(0, apart + other_reach + b.width - 1);
}
