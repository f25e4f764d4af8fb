//! The attributes of girih.
