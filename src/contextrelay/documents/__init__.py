"""JSON documents: values, pointers, patches, differences."""
