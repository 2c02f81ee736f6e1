# Writes and SQL over HTTP, for who signs requests. Idle, it bills storage and the runs of compaction: see infra/README.md.

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
