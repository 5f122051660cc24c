"""Export formats, one module each that defines `FORMAT`; see `export.ExportFormat`."""
