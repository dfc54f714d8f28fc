"""The article: data → bound values → article.md, its figures and the list of its numbers."""
