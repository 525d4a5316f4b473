"""The application: server, scheduler and worker. Nobody imports it as a library."""
