locals {
  # Defaults of this module. The function module has all others and validates every value.
  function = merge(var.function, {
    name    = try(coalesce(var.function.name), "tidelake-ingest-queue")
    memory  = try(coalesce(var.function.memory), 512)
    timeout = try(coalesce(var.function.timeout), 60)
  })
  # Tags of the resources created here in addition to the function.
  tags = try(var.function.tags, null)

  stream = var.kinesis_stream_arn != null
  # KMS key of the queues; a stream's key is only used to decrypt.
  queue_kms_key = local.stream ? null : var.source_kms_key_arn
  suffix        = var.fifo ? ".fifo" : ""
  day           = 24 * 60 * 60
  batch_size    = coalesce(var.batch_size, var.fifo ? 10 : 1000)
  # Lambda requires a batching window for batches of more than 10 messages, and allows none for FIFO queues.
  window = var.fifo ? 0 : max(local.batch_size > 10 ? 1 : 0, var.batch_seconds)

  take = [
    for statement in [
      {
        Sid      = "TakeMessages"
        Action   = ["sqs:ChangeMessageVisibility", "sqs:DeleteMessage", "sqs:GetQueueAttributes", "sqs:ReceiveMessage"]
        Resource = aws_sqs_queue.this[*].arn
      },
    ] : statement if !local.stream
  ]

  read = [
    for statement in [
      {
        Sid = "ReadStream"
        Action = [
          "kinesis:DescribeStream",
          "kinesis:DescribeStreamSummary",
          "kinesis:GetRecords",
          "kinesis:GetShardIterator",
          "kinesis:ListShards",
        ]
        Resource = [var.kinesis_stream_arn]
      },
      { Sid = "ReportFailures", Action = ["sqs:SendMessage"], Resource = [aws_sqs_queue.dead.arn] },
    ] : statement if local.stream
  ]

  decrypt = var.source_kms_key_arn == null ? [] : [
    { Sid = "DecryptMessages", Action = ["kms:Decrypt"], Resource = [var.source_kms_key_arn] },
  ]
}

module "function" {
  source = "../function"

  settings    = local.function
  names       = { settings = keys(local.function) }
  description = "Tidelake: writes from ${local.stream ? "a stream" : "a queue"}"
  rights      = "write"

  environment = merge(
    {
      TIDELAKE_QUEUE_FORMAT         = join(",", distinct(concat([var.format], var.other_formats)))
      TIDELAKE_QUEUE_DATABASE       = var.database
      TIDELAKE_QUEUE_PRECISION      = var.precision
      TIDELAKE_DEDUP                = tostring(var.dedup)
      TIDELAKE_AUTO_CREATE_DATABASE = tostring(var.auto_create_database)
    },
    length(var.other_databases) == 0 ? {} : { TIDELAKE_QUEUE_DATABASES = join(",", var.other_databases) },
  )

  statements = concat(local.take, local.read, local.decrypt)
}

resource "aws_sqs_queue" "dead" {
  #checkov:skip=CKV_AWS_27:Encrypted by SQS with keys of its own, a KMS key is a variable
  name                      = "${local.function.name}-dead${local.suffix}"
  fifo_queue                = var.fifo ? true : null
  message_retention_seconds = 14 * local.day
  sqs_managed_sse_enabled   = local.queue_kms_key == null ? true : null
  kms_master_key_id         = local.queue_kms_key
  tags                      = local.tags
}

resource "aws_sqs_queue" "this" {
  #checkov:skip=CKV_AWS_27:Encrypted by SQS with keys of its own, a KMS key is a variable
  count = local.stream ? 0 : 1

  name = "${local.function.name}${local.suffix}"
  # No content-based deduplication: two equal lines without a timestamp are two rows.
  fifo_queue                = var.fifo ? true : null
  message_retention_seconds = var.message_retention_days * local.day
  # Long enough for Lambda to retry a throttled batch.
  visibility_timeout_seconds = coalesce(var.visibility_timeout, 6 * local.function.timeout + local.window)
  sqs_managed_sse_enabled    = local.queue_kms_key == null ? true : null
  kms_master_key_id          = local.queue_kms_key
  tags                       = local.tags

  redrive_policy = jsonencode({
    deadLetterTargetArn = aws_sqs_queue.dead.arn
    maxReceiveCount     = var.max_receive_count
  })
}

resource "aws_lambda_event_source_mapping" "queue" {
  count = local.stream ? 0 : 1

  event_source_arn                   = aws_sqs_queue.this[0].arn
  function_name                      = module.function.arn
  batch_size                         = local.batch_size
  maximum_batching_window_in_seconds = var.fifo ? null : local.window
  # Only an unreadable message goes to the dead letters; the other messages of the batch are stored.
  function_response_types = ["ReportBatchItemFailures"]
  tags                    = local.tags

  dynamic "scaling_config" {
    for_each = var.maximum_concurrency == null ? [] : [var.maximum_concurrency]

    content {
      maximum_concurrency = scaling_config.value
    }
  }
}

resource "aws_lambda_event_source_mapping" "stream" {
  count = local.stream ? 1 : 0

  event_source_arn                   = var.kinesis_stream_arn
  function_name                      = module.function.arn
  starting_position                  = var.starting_position
  parallelization_factor             = var.parallelization_factor
  batch_size                         = local.batch_size
  maximum_batching_window_in_seconds = var.batch_seconds
  function_response_types            = ["ReportBatchItemFailures"]
  # An unreadable record must not block its shard: bisect the batch, retry, then report it in the dead letters.
  bisect_batch_on_function_error = true
  maximum_retry_attempts         = var.max_receive_count
  tags                           = local.tags

  destination_config {
    on_failure {
      destination_arn = aws_sqs_queue.dead.arn
    }
  }
}
