data "aws_partition" "current" {}
data "aws_region" "current" {}
data "aws_caller_identity" "current" {}

locals {
  # Defaults of this module. The function module has all others and validates every value.
  function = merge(var.function, {
    name    = try(coalesce(var.function.name), "tidelake-compact")
    memory  = try(coalesce(var.function.memory), 1024)
    timeout = try(coalesce(var.function.timeout), 300)
  })
  # Tags of the resources created here in addition to the function.
  tags = try(var.function.tags, null)

  # Constructed, because the policy is created before the function.
  arn = "arn:${data.aws_partition.current.partition}:lambda:${data.aws_region.current.name}:${data.aws_caller_identity.current.account_id}:function:${local.function.name}"

  rate     = try(regex("^rate\\((?P<count>[0-9]+) (?P<unit>minute|hour|day)s?\\)$", var.schedule), null)
  interval = try(tonumber(local.rate.count) * { minute = 60, hour = 3600, day = 24 * 3600 }[local.rate.unit], null)

  # Tasks of the function with their schedules.
  schedules = { for task, schedule in {
    compact = { expression = var.schedule, description = "Compacts a Tidelake root" }
    collect = { expression = var.schedule == null ? null : var.collect_schedule, description = "Collects garbage of a Tidelake root" }
    sweep   = { expression = var.schedule == null ? null : var.sweep_schedule, description = "Looks for objects that no version of a Tidelake root ever named" }
  } : task => schedule if schedule.expression != null }
}

module "function" {
  source = "../function"

  settings    = local.function
  names       = { settings = keys(local.function) }
  description = "Tidelake: folds the log, merges files, applies retention, collects garbage"
  rights      = "compact"

  environment = { TIDELAKE_CONTINUE = tostring(var.continues) }

  statements = var.continues ? [{ Sid = "Continue", Action = ["lambda:InvokeFunction"], Resource = [local.arn] }] : []
}

# A failed run is not retried: the next run finds the same work.
resource "aws_lambda_function_event_invoke_config" "this" {
  function_name                = module.function.name
  maximum_retry_attempts       = 0
  maximum_event_age_in_seconds = 300
}

resource "aws_cloudwatch_event_rule" "schedule" {
  for_each = local.schedules

  name                = each.key == "compact" ? local.function.name : "${local.function.name}-${each.key}"
  description         = each.value.description
  schedule_expression = each.value.expression
  tags                = local.tags
}

resource "aws_cloudwatch_event_target" "schedule" {
  for_each = local.schedules

  rule  = aws_cloudwatch_event_rule.schedule[each.key].name
  arn   = module.function.arn
  input = jsonencode({ task = each.key })

  depends_on = [aws_lambda_permission.schedule]
}

resource "aws_lambda_permission" "schedule" {
  for_each = local.schedules

  statement_id  = "TidelakeSchedule${title(each.key)}"
  function_name = module.function.name
  action        = "lambda:InvokeFunction"
  principal     = "events.amazonaws.com"
  source_arn    = aws_cloudwatch_event_rule.schedule[each.key].arn
}
