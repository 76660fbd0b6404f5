"""Topic models of documents."""
