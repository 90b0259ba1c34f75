"""Trees and whole models as JSON, ONNX, SQL, C, JavaScript and Python: strings and bytes, files only where asked for."""
