//! Ruby on the Ashlar heap.
