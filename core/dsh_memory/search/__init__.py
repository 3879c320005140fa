"""Full-text search and bounded context over records."""
