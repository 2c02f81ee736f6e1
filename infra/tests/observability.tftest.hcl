mock_provider "aws" {
  source = "./tests/mocks"
}

variables {
  functions = {
    ingest-http = { name = "t-ingest-http", timeout = 30, log_group = "/aws/lambda/t-ingest-http" }
    compact     = { name = "t-compact", timeout = 300, log_group = "/aws/lambda/t-compact" }
  }
  compaction   = "compact"
  queue_name   = "t-ingest-queue"
  dead_letters = { ingest-queue = "t-ingest-queue-dead" }
}

run "each_function_has_its_alarms" {
  module {
    source = "./modules/observability"
  }

  assert {
    condition = jsonencode(output.alarms) == jsonencode([
      "t-compact-duration",
      "t-compact-errors",
      "t-compact-failures",
      "t-compact-throttles",
      "t-ingest-http-duration",
      "t-ingest-http-errors",
      "t-ingest-http-failures",
      "t-ingest-http-throttles",
      "t-ingest-queue-dead-not-empty",
      "tidelake-compaction-silent",
      "tidelake-corrupt",
      "tidelake-log-lag",
    ])
    error_message = "There is an alarm for each thing that can go wrong."
  }

  assert {
    condition = alltrue(flatten([
      for alarms in [
        aws_cloudwatch_metric_alarm.errors, aws_cloudwatch_metric_alarm.throttles, aws_cloudwatch_metric_alarm.duration,
        aws_cloudwatch_metric_alarm.failures,
      ] : [for key, alarm in alarms : jsonencode(alarm.dimensions) == jsonencode({ FunctionName = "t-${key}" })]
    ]))
    error_message = "An alarm is about one function."
  }

  assert {
    condition     = alltrue([for alarm in aws_cloudwatch_metric_alarm.failures : alarm.namespace == "Tidelake" && alarm.metric_name == "Failures"])
    error_message = "Failures are what the functions count."
  }

  assert {
    condition     = aws_cloudwatch_metric_alarm.lag[0].namespace == "Tidelake" && aws_cloudwatch_metric_alarm.lag[0].metric_name == "LogLagSeconds" && aws_cloudwatch_metric_alarm.lag[0].dimensions.FunctionName == "t-compact" && aws_cloudwatch_metric_alarm.lag[0].threshold == 900 && aws_cloudwatch_metric_alarm.lag[0].treat_missing_data == "notBreaching"
    error_message = "A log that falls behind rings; one of which nothing is said does not."
  }

  assert {
    condition     = alltrue([for alarm in concat(aws_cloudwatch_metric_alarm.lag, aws_cloudwatch_metric_alarm.silence) : alarm.period == 300 && alarm.evaluation_periods == 3])
    error_message = "With a run each minute, both ring after a quarter of an hour."
  }

  assert {
    condition     = aws_cloudwatch_metric_alarm.silence[0].metric_name == "Invocations" && aws_cloudwatch_metric_alarm.silence[0].dimensions.FunctionName == "t-compact" && aws_cloudwatch_metric_alarm.silence[0].treat_missing_data == "breaching"
    error_message = "Compaction that does not run rings."
  }

  assert {
    condition     = aws_cloudwatch_metric_alarm.dead_letters["ingest-queue"].dimensions.QueueName == "t-ingest-queue-dead" && aws_cloudwatch_metric_alarm.dead_letters["ingest-queue"].threshold == 0
    error_message = "One dead letter rings."
  }

  assert {
    condition     = aws_cloudwatch_metric_alarm.duration["compact"].threshold == 270000 && aws_cloudwatch_metric_alarm.duration["ingest-http"].threshold == 27000
    error_message = "Nine tenths of the timeout ring."
  }

  assert {
    condition     = alltrue([for f in aws_cloudwatch_log_metric_filter.corrupt : f.metric_transformation[0].name == aws_cloudwatch_metric_alarm.corrupt[0].metric_name && f.metric_transformation[0].namespace == aws_cloudwatch_metric_alarm.corrupt[0].namespace]) && length(aws_cloudwatch_metric_alarm.corrupt[0].dimensions == null ? {} : aws_cloudwatch_metric_alarm.corrupt[0].dimensions) == 0
    error_message = "A corrupt object in any log rings."
  }

  assert {
    condition     = alltrue([for alarm in aws_cloudwatch_metric_alarm.errors : one(alarm.alarm_actions) == output.topic_arn]) && length(aws_sns_topic_subscription.email) == 0
    error_message = "Alarms tell the topic."
  }

  assert {
    condition     = output.dashboard_name == "tidelake" && length(jsondecode(output.dashboard_body).widgets) == 13
    error_message = "The dashboard has a graph for each metric."
  }

  assert {
    condition     = alltrue([for metric in ["RowsWritten", "BytesPut", "Segments", "LogLagSeconds", "UnfoldedSegments", "Files", "CompactionDebt", "Failures"] : strcontains(output.dashboard_body, metric)])
    error_message = "All metrics of the functions are on the dashboard."
  }

  assert {
    condition     = length(aws_budgets_budget.this) == 0
    error_message = "Nobody asked for a budget."
  }
}

run "a_run_each_ten_minutes_can_be_late" {
  module {
    source = "./modules/observability"
  }

  variables {
    compaction_seconds = 600
  }

  assert {
    condition     = aws_cloudwatch_metric_alarm.lag[0].period == 1200 && aws_cloudwatch_metric_alarm.lag[0].evaluation_periods == 2
    error_message = "Each period has a run, so that the log can be behind in two of them."
  }

  assert {
    condition     = aws_cloudwatch_metric_alarm.silence[0].period == 600 && aws_cloudwatch_metric_alarm.silence[0].evaluation_periods == 3 && strcontains(aws_cloudwatch_metric_alarm.silence[0].alarm_description, "for 30 minutes")
    error_message = "Three runs that did not come ring."
  }
}

run "a_run_each_day_can_be_late" {
  module {
    source = "./modules/observability"
  }

  variables {
    compaction_seconds = 86400
  }

  assert {
    condition     = aws_cloudwatch_metric_alarm.lag[0].period == 86400 && aws_cloudwatch_metric_alarm.lag[0].evaluation_periods == 1
    error_message = "One run that leaves the log behind rings."
  }

  assert {
    condition     = aws_cloudwatch_metric_alarm.silence[0].period * aws_cloudwatch_metric_alarm.silence[0].evaluation_periods == 3 * 86400
    error_message = "Three days without a run ring."
  }
}

run "the_longest_schedule_that_cloudwatch_can_watch" {
  module {
    source = "./modules/observability"
  }

  variables {
    compaction_seconds = 172800
  }

  assert {
    condition     = aws_cloudwatch_metric_alarm.silence[0].period == 86400 && aws_cloudwatch_metric_alarm.silence[0].evaluation_periods == 6
    error_message = "CloudWatch looks back seven days at most."
  }
}

run "compaction_on_demand_is_not_late" {
  module {
    source = "./modules/observability"
  }

  variables {
    compaction_seconds = null
  }

  assert {
    condition     = length(aws_cloudwatch_metric_alarm.lag) == 0 && length(aws_cloudwatch_metric_alarm.silence) == 0 && contains(output.alarms, "t-compact-errors")
    error_message = "What nobody starts is not missed; its errors ring."
  }
}

run "a_run_each_week_is_not_watched" {
  module {
    source = "./modules/observability"
  }

  variables {
    compaction_seconds = 604800
  }

  assert {
    condition     = length(aws_cloudwatch_metric_alarm.lag) == 0 && length(aws_cloudwatch_metric_alarm.silence) == 0
    error_message = "CloudWatch cannot look back so far."
  }
}

run "mail_and_a_budget" {
  module {
    source = "./modules/observability"
  }

  variables {
    email          = "ops@example.com"
    monthly_budget = 20
    budget_tag     = { key = "Project", value = "tidelake" }
    stream_reader  = "ingest-http"
  }

  assert {
    condition     = aws_sns_topic_subscription.email[0].endpoint == "ops@example.com"
    error_message = "Alarms are mailed."
  }

  assert {
    condition     = aws_budgets_budget.this[0].limit_amount == "20" && one(one(aws_budgets_budget.this[0].cost_filter).values) == "user:Project$tidelake"
    error_message = "The budget is for what has the tag."
  }

  assert {
    condition     = aws_cloudwatch_metric_alarm.stream_age[0].metric_name == "IteratorAge" && aws_cloudwatch_metric_alarm.stream_age[0].threshold == 900000
    error_message = "A reader of a stream that is behind rings."
  }
}

run "nothing_that_bills" {
  module {
    source = "./modules/observability"
  }

  variables {
    alarms    = false
    dashboard = false
  }

  assert {
    condition     = length(output.alarms) == 0 && output.topic_arn == null && output.dashboard_name == null && length(aws_cloudwatch_log_metric_filter.corrupt) == 0
    error_message = "There is nothing."
  }
}

run "a_budget_is_reported_to_somebody" {
  command = plan

  module {
    source = "./modules/observability"
  }

  variables {
    monthly_budget = 20
  }

  expect_failures = [var.monthly_budget]
}

run "wrong_values_are_refused" {
  command = plan

  module {
    source = "./modules/observability"
  }

  variables {
    compaction         = "other"
    email              = "ops"
    lag_seconds        = 1
    near_timeout       = 2
    stream_age_seconds = 1
  }

  expect_failures = [var.compaction, var.email, var.lag_seconds, var.near_timeout, var.stream_age_seconds]
}

run "what_is_no_name_is_refused" {
  command = plan

  module {
    source = "./modules/observability"
  }

  variables {
    name               = "tide lake"
    functions          = { compact = { name = "compact", timeout = 0, log_group = "/aws/lambda/compact" } }
    queue_name         = "https://sqs.us-east-1.amazonaws.com/123456789012/queue"
    dead_letters       = { queue = "a.b" }
    compaction_seconds = 90
    budget_tag         = { key = "", value = "tidelake" }
    tags               = { "aws:name" = "tidelake" }
  }

  expect_failures = [
    var.name, var.functions, var.queue_name, var.dead_letters, var.compaction_seconds, var.budget_tag, var.tags,
  ]
}
