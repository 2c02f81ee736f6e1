data "aws_partition" "current" {}
data "aws_region" "current" {}
data "aws_caller_identity" "current" {}

module "access" {
  source = "../access"
  store  = var.settings.store
}

locals {
  place     = "${data.aws_region.current.name}:${data.aws_caller_identity.current.account_id}"
  log_group = "/aws/lambda/${var.settings.name}"
  in_s3     = startswith(var.settings.package, "s3://")
  public    = try(var.url.auth, null) == "NONE"

  token_secret_arn         = try(var.url.token_secret_arn, null)
  token_secret_kms_key_arn = try(var.url.token_secret_kms_key_arn, null)

  # A caller that invokes a public function directly, not through its URL, controls the whole event, including the client's address.
  address = local.public ? { TIDELAKE_SOURCE_ADDRESS = "ignored" } : {}

  variables = {
    for name, value in merge(
      local.address,
      {
        TIDELAKE_STORE        = var.settings.store.url
        TIDELAKE_LOG          = var.settings.log_level
        TIDELAKE_AUTH         = try(var.url.users, false) ? "users" : null
        TIDELAKE_TOKEN_SECRET = local.token_secret_arn
      },
      var.environment,
      var.settings.environment,
    ) : name => value if value != null
  }

  package_s3 = local.in_s3 ? regex("^s3://(?P<bucket>[^/]+)/(?P<key>.+)$", var.settings.package) : null

  statements = concat(
    module.access[var.rights],
    local.token_secret_arn == null ? [] : [
      { Sid = "ReadTokens", Effect = "Allow", Action = ["secretsmanager:GetSecretValue"], Resource = [local.token_secret_arn] },
    ],
    local.token_secret_kms_key_arn == null ? [] : [
      { Sid = "DecryptTokens", Effect = "Allow", Action = ["kms:Decrypt"], Resource = [local.token_secret_kms_key_arn] },
    ],
    var.statements,
    [
      {
        Sid      = "WriteLogs"
        Effect   = "Allow"
        Action   = ["logs:CreateLogStream", "logs:PutLogEvents"]
        Resource = ["arn:${data.aws_partition.current.partition}:logs:${local.place}:log-group:${local.log_group}:*"]
      },
    ],
    # X-Ray and network interfaces of functions do not support narrower resources.
    var.settings.tracing ? [
      {
        Sid      = "WriteTraces"
        Effect   = "Allow"
        Action   = ["xray:PutTraceSegments", "xray:PutTelemetryRecords"]
        Resource = ["*"]
      },
    ] : [],
    var.settings.vpc == null ? [] : [
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
  retention_in_days = var.settings.log_retention_days
  tags              = var.settings.tags
}

resource "aws_iam_role" "this" {
  name = var.settings.name
  tags = var.settings.tags
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
  function_name = var.settings.name
  description   = var.description
  role          = aws_iam_role.this.arn
  tags          = var.settings.tags

  runtime          = "provided.al2023"
  handler          = "bootstrap"
  architectures    = [var.settings.architecture]
  filename         = local.in_s3 ? null : var.settings.package
  source_code_hash = local.in_s3 ? null : filebase64sha256(var.settings.package)
  s3_bucket        = try(local.package_s3.bucket, null)
  s3_key           = try(local.package_s3.key, null)

  memory_size                    = var.settings.memory
  timeout                        = var.settings.timeout
  reserved_concurrent_executions = var.settings.reserved_concurrency

  ephemeral_storage {
    size = var.settings.ephemeral_storage
  }

  environment {
    variables = local.variables
  }

  logging_config {
    log_format = "JSON"
    log_group  = aws_cloudwatch_log_group.this.name
  }

  tracing_config {
    mode = var.settings.tracing ? "Active" : "PassThrough"
  }

  dynamic "vpc_config" {
    for_each = var.settings.vpc == null ? [] : [var.settings.vpc]

    content {
      subnet_ids         = vpc_config.value.subnet_ids
      security_group_ids = vpc_config.value.security_group_ids
    }
  }

  # A first invocation without its rights would fail, and one without its log group would create one that never expires.
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
      error_message = "A URL with auth NONE needs TIDELAKE_AUTH=users, or TIDELAKE_TOKEN_SECRET, a secret with the tokens that the function accepts."
    }
  }
}

# A public URL needs both permissions. The second also allows anybody to invoke the function directly, because this version of
# the provider cannot express "only through the URL"; the function checks the token of every event, whatever its origin.
resource "aws_lambda_permission" "public" {
  #checkov:skip=CKV_AWS_301:Only with a secret with tokens, see the precondition of the URL
  for_each = { for action, auth in { InvokeFunctionUrl = "NONE", InvokeFunction = null } : action => auth if local.public }

  statement_id           = "TidelakePublic${each.key}"
  function_name          = aws_lambda_function.this.function_name
  action                 = "lambda:${each.key}"
  principal              = "*"
  function_url_auth_type = each.value
}
