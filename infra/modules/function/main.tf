data "aws_partition" "current" {}
data "aws_region" "current" {}
data "aws_caller_identity" "current" {}

locals {
  place     = "${data.aws_region.current.name}:${data.aws_caller_identity.current.account_id}"
  log_group = "/aws/lambda/${var.name}"
  in_s3     = startswith(var.package, "s3://")
  public    = try(var.url.auth, null) == "NONE"
  # Whoever may invoke a public function past its URL writes the whole event, the client's address included.
  address    = local.public ? { TIDELAKE_SOURCE_ADDRESS = "ignored" } : {}
  variables  = { for name, value in merge(local.address, var.environment) : name => value if value != null }
  package_s3 = local.in_s3 ? regex("^s3://(?P<bucket>[^/]+)/(?P<key>.+)$", var.package) : null

  statements = concat(
    var.statements,
    [
      {
        Sid      = "WriteLogs"
        Effect   = "Allow"
        Action   = ["logs:CreateLogStream", "logs:PutLogEvents"]
        Resource = ["arn:${data.aws_partition.current.partition}:logs:${local.place}:log-group:${local.log_group}:*"]
      },
    ],
    # Neither X-Ray nor the network interfaces of functions know a narrower resource.
    var.tracing ? [
      {
        Sid      = "WriteTraces"
        Effect   = "Allow"
        Action   = ["xray:PutTraceSegments", "xray:PutTelemetryRecords"]
        Resource = ["*"]
      },
    ] : [],
    var.vpc == null ? [] : [
      {
        Sid    = "JoinNetwork"
        Effect = "Allow"
        Action = [
          "ec2:AssignPrivateIpAddresses",
          "ec2:CreateNetworkInterface",
          "ec2:DeleteNetworkInterface",
          "ec2:DescribeNetworkInterfaces",
          "ec2:DescribeSubnets",
          "ec2:UnassignPrivateIpAddresses",
        ]
        Resource = ["*"]
      },
    ],
  )

  policy = jsonencode({
    Version   = "2012-10-17"
    Statement = [for s in local.statements : { for key, value in s : key => value if value != null }]
  })
}

resource "aws_cloudwatch_log_group" "this" {
  #checkov:skip=CKV_AWS_158:CloudWatch encrypts logs with keys of its own; they hold no rows and no tokens
  #checkov:skip=CKV_AWS_338:How long logs are kept is a variable
  name              = local.log_group
  retention_in_days = var.log_retention_days
  tags              = var.tags
}

resource "aws_iam_role" "this" {
  name = var.name
  tags = var.tags
  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Principal = { Service = "lambda.amazonaws.com" }
      Action    = "sts:AssumeRole"
    }]
  })
}

resource "aws_iam_role_policy" "this" {
  name   = "function"
  role   = aws_iam_role.this.id
  policy = local.policy
}

resource "aws_lambda_function" "this" {
  #checkov:skip=CKV_AWS_50:Tracing is a variable
  #checkov:skip=CKV_AWS_115:Reserved concurrency is a variable: accounts begin with too little to reserve any
  #checkov:skip=CKV_AWS_116:Who invokes asynchronously has its own dead letters, a queue's or none because the schedule comes again
  #checkov:skip=CKV_AWS_117:A VPC is a variable: the functions talk to AWS alone
  #checkov:skip=CKV_AWS_173:The environment holds no secrets, only the ARN of one
  #checkov:skip=CKV_AWS_272:Zips are built by who deploys them
  function_name = var.name
  description   = var.description
  role          = aws_iam_role.this.arn
  tags          = var.tags

  runtime          = "provided.al2023"
  handler          = "bootstrap"
  architectures    = [var.architecture]
  filename         = local.in_s3 ? null : var.package
  source_code_hash = local.in_s3 ? null : filebase64sha256(var.package)
  s3_bucket        = try(local.package_s3.bucket, null)
  s3_key           = try(local.package_s3.key, null)

  memory_size                    = var.memory
  timeout                        = var.timeout
  reserved_concurrent_executions = var.reserved_concurrency

  ephemeral_storage {
    size = var.ephemeral_storage
  }

  environment {
    variables = local.variables
  }

  logging_config {
    log_format = "JSON"
    log_group  = aws_cloudwatch_log_group.this.name
  }

  tracing_config {
    mode = var.tracing ? "Active" : "PassThrough"
  }

  dynamic "vpc_config" {
    for_each = var.vpc == null ? [] : [var.vpc]

    content {
      subnet_ids         = vpc_config.value.subnet_ids
      security_group_ids = vpc_config.value.security_group_ids
    }
  }

  # A first invocation without its rights would fail, and one without its log group would make one that never expires.
  depends_on = [aws_iam_role_policy.this]
}

resource "aws_lambda_function_url" "this" {
  #checkov:skip=CKV_AWS_258:A URL without signatures needs users or a secret with tokens, see the precondition
  count = var.url == null ? 0 : 1

  function_name      = aws_lambda_function.this.function_name
  authorization_type = var.url.auth
  invoke_mode        = var.url.invoke_mode

  lifecycle {
    precondition {
      condition     = !local.public || contains(keys(local.variables), "TIDELAKE_TOKEN_SECRET") || try(local.variables.TIDELAKE_AUTH, "") == "users"
      error_message = "A URL that anybody may ask needs TIDELAKE_AUTH=users, or TIDELAKE_TOKEN_SECRET, a secret with the tokens that the function accepts."
    }
  }
}

# A public URL needs both rights. The second one lets anybody invoke the function past its URL as well, since this version of
# the provider cannot say "only through the URL"; the function asks every event for its token, wherever it comes from.
resource "aws_lambda_permission" "public" {
  #checkov:skip=CKV_AWS_301:Only with a secret with tokens, see the precondition of the URL
  for_each = { for action, auth in { InvokeFunctionUrl = "NONE", InvokeFunction = null } : action => auth if local.public }

  statement_id           = "TidelakePublic${each.key}"
  function_name          = aws_lambda_function.this.function_name
  action                 = "lambda:${each.key}"
  principal              = "*"
  function_url_auth_type = each.value
}
