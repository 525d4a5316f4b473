"""HTTP and the database: the only room that knows FastAPI and SQLAlchemy."""
