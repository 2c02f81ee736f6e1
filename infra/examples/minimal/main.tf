# Writes and SQL over HTTP for callers that sign requests. When idle, only storage and compaction runs are billed: see infra/README.md.

provider "aws" {
  region = var.region

  default_tags {
    tags = { Project = var.name }
  }
}

module "tidelake" {
  source = "../.."

  name         = var.name
  packages     = var.packages
  architecture = var.architecture
}
