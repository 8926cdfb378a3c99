"""Search: words, passages and BM25."""
