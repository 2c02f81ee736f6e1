mock_provider "aws" {
  source = "./tests/mocks"
}

variables {
  function = {
    store   = { url = "s3://bucket/root", bucket_arn = "arn:aws:s3:::bucket", prefix = "root" }
    package = "s3://artifacts/1.0.0/ingest-queue.zip"
  }
  database = "metrics"
}

run "a_standard_queue" {
  module {
    source = "./modules/queue"
  }

  assert {
    condition = jsonencode(output.environment) == jsonencode({
      TIDELAKE_AUTO_CREATE_DATABASE = "true"
      TIDELAKE_DEDUP                = "false"
      TIDELAKE_LOG                  = "info"
      TIDELAKE_QUEUE_DATABASE       = "metrics"
      TIDELAKE_QUEUE_FORMAT         = "line"
      TIDELAKE_QUEUE_PRECISION      = "ns"
      TIDELAKE_STORE                = "s3://bucket/root"
    })
    error_message = "The function knows what messages hold."
  }

  assert {
    condition     = aws_sqs_queue.this[0].name == "tidelake-ingest-queue" && aws_sqs_queue.this[0].visibility_timeout_seconds == 361 && aws_sqs_queue.this[0].sqs_managed_sse_enabled
    error_message = "A message is hidden long enough, and encrypted."
  }

  assert {
    condition     = jsonencode(jsondecode(aws_sqs_queue.this[0].redrive_policy)) == jsonencode({ deadLetterTargetArn = aws_sqs_queue.dead.arn, maxReceiveCount = 5 })
    error_message = "After five deliveries a message is a dead letter."
  }

  assert {
    condition     = aws_sqs_queue.dead.name == "tidelake-ingest-queue-dead" && aws_sqs_queue.dead.message_retention_seconds == 1209600
    error_message = "Dead letters are kept as long as SQS keeps any."
  }

  assert {
    condition     = one(aws_lambda_event_source_mapping.queue[0].function_response_types) == "ReportBatchItemFailures" && aws_lambda_event_source_mapping.queue[0].batch_size == 1000 && aws_lambda_event_source_mapping.queue[0].maximum_batching_window_in_seconds == 1
    error_message = "Messages fail one by one, and are stored many at once."
  }

  assert {
    condition     = jsonencode(jsondecode(output.policy).Statement[*].Sid) == jsonencode(["ReadRoot", "ListRoot", "CreateVersionsAndSegments", "DeleteClockProbes", "TakeMessages", "WriteLogs"])
    error_message = "It has the rights of a writer, and takes messages."
  }

  assert {
    condition     = jsonencode([for s in jsondecode(output.policy).Statement : { actions = s.Action, resources = s.Resource } if s.Sid == "TakeMessages"]) == jsonencode([{ actions = ["sqs:ChangeMessageVisibility", "sqs:DeleteMessage", "sqs:GetQueueAttributes", "sqs:ReceiveMessage"], resources = [aws_sqs_queue.this[0].arn] }])
    error_message = "It takes messages from its queue and sends none."
  }
}

run "a_fifo_queue" {
  module {
    source = "./modules/queue"
  }

  variables {
    fifo  = true
    dedup = true
  }

  assert {
    condition     = aws_sqs_queue.this[0].name == "tidelake-ingest-queue.fifo" && aws_sqs_queue.this[0].fifo_queue && aws_sqs_queue.dead.name == "tidelake-ingest-queue-dead.fifo" && aws_sqs_queue.dead.fifo_queue
    error_message = "Both queues keep order."
  }

  assert {
    condition     = aws_lambda_event_source_mapping.queue[0].batch_size == 10
    error_message = "A FIFO queue gives ten messages at once."
  }

  assert {
    condition     = output.environment.TIDELAKE_DEDUP == "true"
    error_message = "The ids of messages are keys."
  }
}

run "a_stream" {
  module {
    source = "./modules/queue"
  }

  variables {
    kinesis_stream_arn = "arn:aws:kinesis:us-east-1:123456789012:stream/rows"
    format             = "opentsdb"
    precision          = "ms"
  }

  assert {
    condition     = length(aws_sqs_queue.this) == 0 && length(aws_lambda_event_source_mapping.queue) == 0 && output.queue_url == null && output.stream
    error_message = "There is no queue but that of dead letters."
  }

  assert {
    condition     = aws_lambda_event_source_mapping.stream[0].destination_config[0].on_failure[0].destination_arn == aws_sqs_queue.dead.arn && aws_lambda_event_source_mapping.stream[0].bisect_batch_on_function_error && one(aws_lambda_event_source_mapping.stream[0].function_response_types) == "ReportBatchItemFailures"
    error_message = "A record that fails does not stop its shard."
  }

  assert {
    condition     = jsonencode(jsondecode(output.policy).Statement[*].Sid) == jsonencode(["ReadRoot", "ListRoot", "CreateVersionsAndSegments", "DeleteClockProbes", "ReadStream", "ReportFailures", "WriteLogs"])
    error_message = "It reads the stream and reports what fails."
  }

  assert {
    condition     = output.environment.TIDELAKE_QUEUE_FORMAT == "opentsdb" && output.environment.TIDELAKE_QUEUE_PRECISION == "ms"
    error_message = "The function knows what records hold."
  }
}

run "what_attributes_of_messages_may_choose" {
  module {
    source = "./modules/queue"
  }

  variables {
    other_formats   = ["tdengine", "line"]
    other_databases = ["attributed", "site"]
  }

  assert {
    condition     = output.environment.TIDELAKE_QUEUE_FORMAT == "line,tdengine" && output.environment.TIDELAKE_QUEUE_DATABASES == "attributed,site"
    error_message = "Attributes choose among what the settings name."
  }
}

run "wrong_values_are_refused" {
  command = plan

  module {
    source = "./modules/queue"
  }

  variables {
    format                 = "csv"
    other_formats          = ["csv"]
    other_databases        = ["a,b"]
    precision              = "min"
    database               = ""
    batch_seconds          = 301
    maximum_concurrency    = 1
    max_receive_count      = 0
    message_retention_days = 15
    visibility_timeout     = 30
  }

  expect_failures = [
    var.format, var.other_formats, var.other_databases, var.precision, var.database, var.batch_seconds, var.maximum_concurrency, var.max_receive_count,
    var.message_retention_days, var.visibility_timeout,
  ]
}

run "a_fifo_queue_gives_at_most_ten" {
  command = plan

  module {
    source = "./modules/queue"
  }

  variables {
    fifo       = true
    batch_size = 100
  }

  expect_failures = [var.batch_size]
}

run "a_stream_is_no_fifo_queue" {
  command = plan

  module {
    source = "./modules/queue"
  }

  variables {
    fifo               = true
    kinesis_stream_arn = "arn:aws:kinesis:us-east-1:123456789012:stream/rows"
  }

  expect_failures = [var.fifo]
}
