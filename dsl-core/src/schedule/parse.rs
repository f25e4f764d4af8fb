//! Schedule expressions as text: `T=1024,V=4`.
