data "aws_partition" "current" {}
data "aws_region" "current" {}
data "aws_caller_identity" "current" {}

module "access" {
  source = "../access"
  store  = var.store
}

locals {
  # Written out, because the policy is there before the function is.
  arn = "arn:${data.aws_partition.current.partition}:lambda:${data.aws_region.current.name}:${data.aws_caller_identity.current.account_id}:function:${var.name}"
}

module "function" {
  source = "../function"

  name                 = var.name
  description          = "Tidelake: folds the log, merges files, applies retention, collects garbage"
  package              = var.package
  architecture         = var.architecture
  memory               = var.memory
  timeout              = var.timeout
  reserved_concurrency = var.reserved_concurrency
  log_retention_days   = var.log_retention_days
  tracing              = var.tracing
  vpc                  = var.vpc
  tags                 = var.tags

  environment = merge(
    {
      TIDELAKE_STORE    = var.store.url
      TIDELAKE_LOG      = var.log_level
      TIDELAKE_CONTINUE = tostring(var.continues)
    },
    var.environment,
  )

  statements = concat(
    module.access.compact,
    var.continues ? [{ Sid = "Continue", Action = ["lambda:InvokeFunction"], Resource = [local.arn] }] : [],
  )
}

# A run that failed is not repeated: the next one finds the same work.
resource "aws_lambda_function_event_invoke_config" "this" {
  function_name                = module.function.name
  maximum_retry_attempts       = 0
  maximum_event_age_in_seconds = 300
}

resource "aws_cloudwatch_event_rule" "schedule" {
  count = var.schedule == null ? 0 : 1

  name                = var.name
  description         = "Compacts a Tidelake root"
  schedule_expression = var.schedule
  tags                = var.tags
}

resource "aws_cloudwatch_event_target" "schedule" {
  count = var.schedule == null ? 0 : 1

  rule = aws_cloudwatch_event_rule.schedule[0].name
  arn  = module.function.arn

  depends_on = [aws_lambda_permission.schedule]
}

resource "aws_lambda_permission" "schedule" {
  count = var.schedule == null ? 0 : 1

  statement_id  = "TidelakeSchedule"
  function_name = module.function.name
  action        = "lambda:InvokeFunction"
  principal     = "events.amazonaws.com"
  source_arn    = aws_cloudwatch_event_rule.schedule[0].arn
}
