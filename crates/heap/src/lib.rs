//! A variable-width garbage-collected heap.
