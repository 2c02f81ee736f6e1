# Rows from a queue in addition to HTTP, with alarms and a dashboard. Clients that cannot sign send a token, if a token secret is set.

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
    # A batch is one PUT; its rows are visible to readers some seconds later.
    batch_seconds = 5
    # A message that SQS delivers twice has no further effect, whatever was written in between.
    dedup = true
  }

  storage = {
    # Files that have not been merged for a quarter of a year are rarely read.
    tiers = [{ days = 90, class = "INTELLIGENT_TIERING" }]
  }

  observability = {
    email          = var.email
    monthly_budget = var.email == null ? null : var.monthly_budget
    budget_tag     = { key = "Project", value = var.name }
  }
}
