# The same modules against LocalStack: HTTP, a queue, compaction every minute, SQL. The environment sets the endpoint of AWS:
#
#   export AWS_ENDPOINT_URL=http://127.0.0.1:4566 AWS_ACCESS_KEY_ID=test AWS_SECRET_ACCESS_KEY=test
#
# All resources are temporary: no lifecycle configuration, for which the provider waits a minute, and a bucket that is destroyed with
# what is in it.

provider "aws" {
  region            = "us-east-1"
  s3_use_path_style = true
}

module "tidelake" {
  source = "../.."

  name         = var.name
  packages     = var.packages
  architecture = var.architecture

  storage = {
    force_destroy   = true
    lifecycle_rules = false
  }

  # Hanging invocations end within seconds.
  ingest = {
    timeout          = 10
    auth             = var.token_secret_arn == null ? "AWS_IAM" : "NONE"
    token_secret_arn = var.token_secret_arn
    environment      = var.environment
  }

  queue = {
    database  = var.queue_database
    precision = var.queue_precision
    fifo      = var.queue_fifo
    dedup     = var.queue_dedup
    # Values that message attributes may select.
    other_formats   = ["opentsdb", "tdengine"]
    other_databases = ["attributed", "site"]
    # Messages that cannot be stored become dead letters within seconds.
    timeout            = 5
    visibility_timeout = 5
    batch_seconds      = 1
    batch_size         = var.queue_fifo ? 10 : 100
    max_receive_count  = 2
    environment        = var.environment
  }

  compaction = {
    schedule    = var.schedule
    timeout     = 60
    environment = var.environment
  }

  # LocalStack does not support streaming.
  query = {
    response         = "buffered"
    auth             = var.token_secret_arn == null ? "AWS_IAM" : "NONE"
    token_secret_arn = var.token_secret_arn
    environment      = var.environment
  }

  # A log that is behind raises an alarm within a minute.
  observability = var.alarms ? { dashboard = false, lag_seconds = 60 } : null

  log_level          = var.log_level
  log_retention_days = 1
}
