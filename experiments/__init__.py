"""The paper's tables and figures, by treelu's public API: runs leave JSON files, tables are derived from those."""
