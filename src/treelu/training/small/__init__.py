"""Small trees by gradients: soft routing that hardens, few terms, and a path of sizes."""
