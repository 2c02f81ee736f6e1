# Rows by a queue beside HTTP, with alarms and a dashboard. Clients that cannot sign bring a token, if there is a secret of tokens.

provider "aws" {
  region = var.region

  default_tags {
    tags = { Project = var.name }
  }
}

locals {
  door = {
    auth             = var.token_secret_arn == null ? "AWS_IAM" : "NONE"
    token_secret_arn = var.token_secret_arn
  }
}

module "tidelake" {
  source = "../.."

  name         = var.name
  packages     = var.packages
  architecture = var.architecture

  ingest = local.door
  query  = local.door

  queue = {
    database = "metrics"
    # A batch is one PUT; who reads sees its rows some seconds later.
    batch_seconds = 5
    # A message that SQS delivers twice changes nothing, whatever was written in between.
    dedup = true
  }

  storage = {
    # Files that were not merged again for a quarter are rarely asked for.
    tiers = [{ days = 90, class = "INTELLIGENT_TIERING" }]
  }

  observability = {
    email          = var.email
    monthly_budget = var.email == null ? null : var.monthly_budget
    budget_tag     = { key = "Project", value = var.name }
  }
}
