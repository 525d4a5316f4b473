"""Try policies on recorded and made-up loads, through the real core; nothing here serves users."""
