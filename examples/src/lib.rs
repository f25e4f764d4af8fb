//! The challenge gallery.
