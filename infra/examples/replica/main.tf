# A root with a replica in a second region, and SQL in both. The replica is read-only: rows are written to the first region.

provider "aws" {
  region = var.region

  default_tags {
    tags = { Project = var.name }
  }
}

provider "aws" {
  alias  = "replica"
  region = var.replica_region

  default_tags {
    tags = { Project = var.name }
  }
}

module "replica" {
  source    = "../../modules/storage"
  providers = { aws = aws.replica }

  name       = var.name
  is_replica = true
}

module "tidelake" {
  source = "../.."

  name         = var.name
  packages     = var.packages
  architecture = var.architecture

  storage = { replicate_to = { bucket_arn = module.replica.bucket_arn } }
}

# Role names are global, so this function needs another name.
module "replica_query" {
  source    = "../../modules/query"
  providers = { aws = aws.replica }

  function = {
    store        = module.replica.store
    package      = "${var.packages}/query-http.zip"
    name         = "${var.name}-replica-query-http"
    architecture = var.architecture
  }
}
