mock_provider "aws" {
  source = "./tests/mocks"
}

variables {
  function = {
    store   = { url = "s3://bucket/root", bucket_arn = "arn:aws:s3:::bucket", prefix = "root" }
    package = "s3://artifacts/1.0.0/compact.zip"
  }
}

run "compaction_runs_each_minute_and_goes_on_by_itself" {
  module {
    source = "./modules/compaction"
  }

  assert {
    condition     = jsonencode(output.environment) == jsonencode({ TIDELAKE_CONTINUE = "true", TIDELAKE_LOG = "info", TIDELAKE_STORE = "s3://bucket/root" })
    error_message = "It starts itself again when there is more to do."
  }

  assert {
    condition     = aws_cloudwatch_event_rule.schedule["compact"].schedule_expression == "rate(1 minute)" && aws_lambda_permission.schedule["compact"].principal == "events.amazonaws.com" && aws_lambda_permission.schedule["compact"].source_arn == aws_cloudwatch_event_rule.schedule["compact"].arn
    error_message = "The schedule, and nothing else of EventBridge, may start it."
  }

  assert {
    condition     = jsonencode({ for task, rule in aws_cloudwatch_event_rule.schedule : task => rule.schedule_expression }) == jsonencode({ collect = "rate(1 hour)", compact = "rate(1 minute)", sweep = "rate(1 day)" }) && aws_cloudwatch_event_target.schedule["sweep"].input == jsonencode({ task = "sweep" })
    error_message = "Garbage is collected each hour and looked for each day, by its task."
  }

  assert {
    condition     = jsonencode([for s in jsondecode(output.policy).Statement : s.Resource if contains(s.Action, "lambda:InvokeFunction")]) == jsonencode([["arn:aws:lambda:us-east-1:123456789012:function:tidelake-compact"]])
    error_message = "It invokes itself and no other function."
  }

  assert {
    condition     = jsonencode([for s in jsondecode(output.policy).Statement : s.Resource if contains(s.Action, "s3:DeleteObject")]) == jsonencode([["arn:aws:s3:::bucket/root/*"]])
    error_message = "It deletes within the root."
  }

  assert {
    condition     = aws_lambda_function_event_invoke_config.this.maximum_retry_attempts == 0
    error_message = "A run that failed is left to the next."
  }
}

run "compaction_on_demand_only" {
  module {
    source = "./modules/compaction"
  }

  variables {
    schedule  = null
    continues = false
  }

  assert {
    condition     = length(aws_cloudwatch_event_rule.schedule) == 0 && output.schedule == null && length(aws_lambda_permission.schedule) == 0
    error_message = "Nothing starts it."
  }

  assert {
    condition     = output.environment.TIDELAKE_CONTINUE == "false" && !anytrue([for s in jsondecode(output.policy).Statement : contains(s.Action, "lambda:InvokeFunction")])
    error_message = "It does not start itself and has no right to."
  }
}

run "a_wrong_schedule_is_refused" {
  command = plan

  module {
    source = "./modules/compaction"
  }

  variables {
    schedule = "every minute"
  }

  expect_failures = [var.schedule]
}

run "one_minute_has_no_plural" {
  command = plan

  module {
    source = "./modules/compaction"
  }

  variables {
    schedule = "rate(1 minutes)"
  }

  expect_failures = [var.schedule]
}

run "never_is_no_rate" {
  command = plan

  module {
    source = "./modules/compaction"
  }

  variables {
    schedule         = "rate(0 minutes)"
    collect_schedule = "rate(1 hours)"
    sweep_schedule   = "cron(0 3 * * * *)"
  }

  expect_failures = [var.schedule, var.collect_schedule, var.sweep_schedule]
}

run "a_rate_says_how_far_runs_lie_apart" {
  module {
    source = "./modules/compaction"
  }

  variables {
    schedule         = "rate(10 minutes)"
    collect_schedule = null
    sweep_schedule   = "cron(0 3 ? * SUN *)"
  }

  assert {
    condition     = output.interval_seconds == 600
    error_message = "Alarms know when a run is late."
  }

  assert {
    condition     = jsonencode(keys(aws_cloudwatch_event_rule.schedule)) == jsonencode(["compact", "sweep"])
    error_message = "Garbage is not collected each hour; on Sundays it is looked for."
  }
}

run "cron_does_not_say_how_far_runs_lie_apart" {
  module {
    source = "./modules/compaction"
  }

  variables {
    schedule = "cron(0/30 6-20 * * ? *)"
  }

  assert {
    condition     = output.interval_seconds == null
    error_message = "Nothing is guessed."
  }
}

run "too_little_time_is_refused" {
  command = plan

  module {
    source = "./modules/compaction"
  }

  variables {
    function = merge(var.function, { timeout = 10 })
  }

  expect_failures = [var.function]
}
