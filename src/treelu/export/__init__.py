"""ObliqueTree to text, DOT, JSON and ONNX: strings and bytes, no files unless a path is given."""
