"""Trees and whole models as JSON, ONNX, SQL, C, JavaScript and Python: strings and bytes, files only if asked for."""
