"""JSON documents: values, pointers, patches and differences."""
