"""Export models as ONNX and OpenVINO graphs, which take padded batches."""
