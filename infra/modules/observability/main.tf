# Alarms on metrics of the functions, their queues and AWS. The functions write their metrics into their logs
# (embedded metric format), namespace Tidelake, dimension FunctionName.

locals {
  namespace = "Tidelake"
  watched   = var.alarms ? var.functions : {}
  topic     = aws_sns_topic.this[*].arn
  compactor = var.compaction == null ? null : var.functions[var.compaction].name

  # Compaction is watched if it has a schedule of at most two days, because CloudWatch looks back at most seven days.
  interval = try(var.compaction_seconds <= 2 * 24 * 3600, false) ? var.compaction_seconds : null
  paced    = var.alarms && var.compaction != null && local.interval != null ? [local.interval] : []

  # Long enough that each period has a run, whatever the offset of the schedule.
  lag_period     = one([for seconds in local.paced : min(max(300, 2 * seconds), 24 * 3600)])
  silence_period = one([for seconds in local.paced : min(max(300, seconds), 24 * 3600)])
}

resource "aws_sns_topic" "this" {
  #checkov:skip=CKV_AWS_26:CloudWatch cannot tell a topic under the key that AWS manages; messages name alarms, not data
  count = var.alarms ? 1 : 0

  name = "${var.name}-alarms"
  tags = var.tags
}

resource "aws_sns_topic_subscription" "email" {
  count = var.alarms && var.email != null ? 1 : 0

  topic_arn = aws_sns_topic.this[0].arn
  protocol  = "email"
  endpoint  = var.email
}

# Invocations that ended without a response: crashed, out of memory, timed out, or a batch returned as a whole.
resource "aws_cloudwatch_metric_alarm" "errors" {
  for_each = local.watched

  alarm_name          = "${each.value.name}-errors"
  alarm_description   = "Invocations of ${each.value.name} failed: see its log."
  namespace           = "AWS/Lambda"
  metric_name         = "Errors"
  dimensions          = { FunctionName = each.value.name }
  statistic           = "Sum"
  period              = 300
  evaluation_periods  = 1
  comparison_operator = "GreaterThanThreshold"
  threshold           = 0
  treat_missing_data  = "notBreaching"
  alarm_actions       = local.topic
  ok_actions          = local.topic
  tags                = var.tags
}

resource "aws_cloudwatch_metric_alarm" "throttles" {
  for_each = local.watched

  alarm_name          = "${each.value.name}-throttles"
  alarm_description   = "${each.value.name} was throttled: raise its reserved concurrency or the account's limit."
  namespace           = "AWS/Lambda"
  metric_name         = "Throttles"
  dimensions          = { FunctionName = each.value.name }
  statistic           = "Sum"
  period              = 300
  evaluation_periods  = 1
  comparison_operator = "GreaterThanThreshold"
  threshold           = 0
  treat_missing_data  = "notBreaching"
  alarm_actions       = local.topic
  ok_actions          = local.topic
  tags                = var.tags
}

resource "aws_cloudwatch_metric_alarm" "duration" {
  for_each = local.watched

  alarm_name          = "${each.value.name}-duration"
  alarm_description   = "An invocation of ${each.value.name} came close to its timeout of ${each.value.timeout} s: raise memory or timeout."
  namespace           = "AWS/Lambda"
  metric_name         = "Duration"
  dimensions          = { FunctionName = each.value.name }
  statistic           = "Maximum"
  period              = 300
  evaluation_periods  = 1
  comparison_operator = "GreaterThanThreshold"
  threshold           = floor(each.value.timeout * 1000 * var.near_timeout)
  treat_missing_data  = "notBreaching"
  alarm_actions       = local.topic
  ok_actions          = local.topic
  tags                = var.tags
}

# Counted by the function: faults of Tidelake or the store, not of a request.
resource "aws_cloudwatch_metric_alarm" "failures" {
  for_each = local.watched

  alarm_name          = "${each.value.name}-failures"
  alarm_description   = "${each.value.name} failed with an internal error: see its log."
  namespace           = local.namespace
  metric_name         = "Failures"
  dimensions          = { FunctionName = each.value.name }
  statistic           = "Sum"
  period              = 300
  evaluation_periods  = 1
  comparison_operator = "GreaterThanThreshold"
  threshold           = 0
  treat_missing_data  = "notBreaching"
  alarm_actions       = local.topic
  ok_actions          = local.topic
  tags                = var.tags
}

# A corrupt object needs an operator: readers that need it fail until it is repaired or quarantined.
resource "aws_cloudwatch_log_metric_filter" "corrupt" {
  for_each = local.watched

  name           = "${each.value.name}-corrupt"
  log_group_name = each.value.log_group
  pattern        = "{ $.kind = \"Corrupt\" }"

  metric_transformation {
    namespace = local.namespace
    name      = "CorruptObjects"
    value     = "1"
  }
}

resource "aws_cloudwatch_metric_alarm" "corrupt" {
  count = length(local.watched) > 0 ? 1 : 0

  alarm_name          = "${var.name}-corrupt"
  alarm_description   = "An object is corrupt: its key is in the functions' logs."
  namespace           = local.namespace
  metric_name         = "CorruptObjects"
  statistic           = "Sum"
  period              = 300
  evaluation_periods  = 1
  comparison_operator = "GreaterThanThreshold"
  threshold           = 0
  treat_missing_data  = "notBreaching"
  alarm_actions       = local.topic
  ok_actions          = local.topic
  tags                = var.tags
}

# Compaction reports the age of the log at the end of each run that found work; on an idle root it reports nothing, because
# each metric is billed for the hours in which it occurs.
resource "aws_cloudwatch_metric_alarm" "lag" {
  count = length(local.paced)

  alarm_name          = "${var.name}-log-lag"
  alarm_description   = "The log is not folded in time and queries get slower: compaction does not run, fails, or is slower than the writes."
  namespace           = local.namespace
  metric_name         = "LogLagSeconds"
  dimensions          = { FunctionName = local.compactor }
  statistic           = "Maximum"
  period              = local.lag_period
  evaluation_periods  = 2 * local.paced[0] > local.lag_period ? 1 : max(2, ceil(900 / local.lag_period))
  comparison_operator = "GreaterThanThreshold"
  threshold           = var.lag_seconds
  treat_missing_data  = "notBreaching"
  alarm_actions       = local.topic
  ok_actions          = local.topic
  tags                = var.tags
}

# The platform counts invocations: none for three intervals, at least a quarter of an hour, means that compaction does not run.
resource "aws_cloudwatch_metric_alarm" "silence" {
  count = length(local.paced)

  alarm_name          = "${var.name}-compaction-silent"
  alarm_description   = "Compaction has not run for ${max(15, ceil(3 * local.paced[0] / 60))} minutes: check its schedule and concurrency."
  namespace           = "AWS/Lambda"
  metric_name         = "Invocations"
  dimensions          = { FunctionName = local.compactor }
  statistic           = "Sum"
  period              = local.silence_period
  evaluation_periods  = max(3, ceil(3 * local.paced[0] / local.silence_period))
  comparison_operator = "LessThanThreshold"
  threshold           = 1
  treat_missing_data  = "breaching"
  alarm_actions       = local.topic
  ok_actions          = local.topic
  tags                = var.tags
}

resource "aws_cloudwatch_metric_alarm" "dead_letters" {
  for_each = var.alarms ? var.dead_letters : {}

  alarm_name          = "${each.value}-not-empty"
  alarm_description   = "Messages that could not be stored are in ${each.value}."
  namespace           = "AWS/SQS"
  metric_name         = "ApproximateNumberOfMessagesVisible"
  dimensions          = { QueueName = each.value }
  statistic           = "Maximum"
  period              = 300
  evaluation_periods  = 1
  comparison_operator = "GreaterThanThreshold"
  threshold           = 0
  treat_missing_data  = "notBreaching"
  alarm_actions       = local.topic
  ok_actions          = local.topic
  tags                = var.tags
}

resource "aws_cloudwatch_metric_alarm" "stream_age" {
  count = var.alarms && var.stream_reader != null ? 1 : 0

  alarm_name          = "${var.name}-stream-age"
  alarm_description   = "The stream's reader is behind: raise parallelization_factor, or check for failures."
  namespace           = "AWS/Lambda"
  metric_name         = "IteratorAge"
  dimensions          = { FunctionName = var.functions[var.stream_reader].name }
  statistic           = "Maximum"
  period              = 300
  evaluation_periods  = 1
  comparison_operator = "GreaterThanThreshold"
  threshold           = var.stream_age_seconds * 1000
  treat_missing_data  = "notBreaching"
  alarm_actions       = local.topic
  ok_actions          = local.topic
  tags                = var.tags
}

resource "aws_budgets_budget" "this" {
  count = var.monthly_budget == null ? 0 : 1

  name         = var.name
  budget_type  = "COST"
  limit_amount = tostring(var.monthly_budget)
  limit_unit   = "USD"
  time_unit    = "MONTHLY"
  tags         = var.tags

  dynamic "cost_filter" {
    for_each = var.budget_tag == null ? [] : [var.budget_tag]

    content {
      name   = "TagKeyValue"
      values = [join("$", ["user:${cost_filter.value.key}", cost_filter.value.value])]
    }
  }

  dynamic "notification" {
    for_each = { ACTUAL = 80, FORECASTED = 100 }

    content {
      notification_type          = notification.key
      comparison_operator        = "GREATER_THAN"
      threshold                  = notification.value
      threshold_type             = "PERCENTAGE"
      subscriber_email_addresses = [var.email]
    }
  }
}
