mock_provider "aws" {
  source = "./tests/mocks"
}

variables {
  name    = "tidelake-one"
  package = "s3://artifacts/1.0.0/one.zip"
}

run "a_function_has_its_log_and_nothing_else" {
  module {
    source = "./modules/function"
  }

  assert {
    condition = jsonencode(jsondecode(output.policy)) == jsonencode({
      Version = "2012-10-17"
      Statement = [{
        Sid      = "WriteLogs"
        Effect   = "Allow"
        Action   = ["logs:CreateLogStream", "logs:PutLogEvents"]
        Resource = ["arn:aws:logs:us-east-1:123456789012:log-group:/aws/lambda/tidelake-one:*"]
      }]
    })
    error_message = "Without statements, a function may write its log."
  }

  assert {
    condition     = aws_iam_role_policy.this.policy == output.policy
    error_message = "The policy that is told is the policy in force."
  }

  assert {
    condition     = aws_lambda_function.this.runtime == "provided.al2023" && aws_lambda_function.this.handler == "bootstrap" && one(aws_lambda_function.this.architectures) == "x86_64"
    error_message = "It runs a bootstrap on Amazon Linux 2023."
  }

  assert {
    condition     = aws_lambda_function.this.s3_bucket == "artifacts" && aws_lambda_function.this.s3_key == "1.0.0/one.zip" && aws_lambda_function.this.filename == null
    error_message = "The zip lies in S3."
  }

  assert {
    condition     = aws_cloudwatch_log_group.this.name == "/aws/lambda/tidelake-one" && aws_cloudwatch_log_group.this.retention_in_days == 30
    error_message = "Logs are kept for a while, not for ever."
  }

  assert {
    condition     = length(aws_lambda_function_url.this) == 0 && length(aws_lambda_permission.public) == 0 && output.url == null
    error_message = "It has no URL, and nobody may invoke it."
  }
}

run "a_zip_of_the_disk_is_uploaded_when_it_changes" {
  module {
    source = "./modules/function"
  }

  variables {
    package = "tests/packages/empty.zip"
  }

  assert {
    condition     = aws_lambda_function.this.filename == "tests/packages/empty.zip" && aws_lambda_function.this.source_code_hash == filebase64sha256("tests/packages/empty.zip") && aws_lambda_function.this.s3_key == null
    error_message = "The zip is known by its hash."
  }
}

run "statements_keep_their_conditions" {
  module {
    source = "./modules/function"
  }

  variables {
    statements = [
      { Sid = "A", Action = ["s3:GetObject"], Resource = ["arn:aws:s3:::b/k/*"] },
      { Sid = "B", Action = ["s3:ListBucket"], Resource = ["arn:aws:s3:::b"], Condition = { StringLike = { "s3:prefix" = ["k/*"] } } },
    ]
  }

  assert {
    condition     = jsonencode(jsondecode(output.policy).Statement[0]) == jsonencode({ Sid = "A", Effect = "Allow", Action = ["s3:GetObject"], Resource = ["arn:aws:s3:::b/k/*"] })
    error_message = "A statement without a condition has none."
  }

  assert {
    condition     = jsonencode(jsondecode(output.policy).Statement[1].Condition) == jsonencode({ StringLike = { "s3:prefix" = ["k/*"] } })
    error_message = "A condition is kept."
  }
}

run "traces_and_networks_bring_their_rights" {
  module {
    source = "./modules/function"
  }

  variables {
    tracing = true
    vpc     = { subnet_ids = ["subnet-1"], security_group_ids = ["sg-1"] }
  }

  assert {
    condition     = jsonencode(jsondecode(output.policy).Statement[*].Sid) == jsonencode(["WriteLogs", "WriteTraces", "JoinNetwork"])
    error_message = "Both are in the policy."
  }

  assert {
    condition     = aws_lambda_function.this.tracing_config[0].mode == "Active" && one(aws_lambda_function.this.vpc_config[0].subnet_ids) == "subnet-1"
    error_message = "Both are switched on."
  }
}

run "variables_that_are_null_are_left_out" {
  module {
    source = "./modules/function"
  }

  variables {
    environment = { TIDELAKE_STORE = "s3://b/k", TIDELAKE_MAX_BODY = null }
  }

  assert {
    condition     = jsonencode(aws_lambda_function.this.environment[0].variables) == jsonencode({ TIDELAKE_STORE = "s3://b/k" })
    error_message = "Only what has a value is in the environment."
  }
}

run "a_url_is_signed_by_default" {
  module {
    source = "./modules/function"
  }

  variables {
    url = {}
  }

  assert {
    condition     = aws_lambda_function_url.this[0].authorization_type == "AWS_IAM" && aws_lambda_function_url.this[0].invoke_mode == "BUFFERED" && length(aws_lambda_permission.public) == 0
    error_message = "Requests are signed, and nobody has a right of the function's own."
  }

  assert {
    condition     = !contains(keys(aws_lambda_function.this.environment[0].variables), "TIDELAKE_SOURCE_ADDRESS")
    error_message = "Events of a URL with signatures say where they come from."
  }

  assert {
    condition     = output.url == "https://mock.lambda-url.us-east-1.on.aws"
    error_message = "The URL ends without a slash."
  }
}

run "a_public_url_with_tokens" {
  module {
    source = "./modules/function"
  }

  variables {
    url         = { auth = "NONE", invoke_mode = "RESPONSE_STREAM" }
    environment = { TIDELAKE_TOKEN_SECRET = "arn:aws:secretsmanager:us-east-1:123456789012:secret:tokens" }
  }

  assert {
    condition     = aws_lambda_function_url.this[0].authorization_type == "NONE" && aws_lambda_function_url.this[0].invoke_mode == "RESPONSE_STREAM"
    error_message = "The URL is public and streams."
  }

  assert {
    condition     = aws_lambda_function.this.environment[0].variables.TIDELAKE_SOURCE_ADDRESS == "ignored"
    error_message = "Everybody may write an event, so its address is not believed."
  }

  assert {
    condition     = jsonencode(sort([for p in aws_lambda_permission.public : p.action])) == jsonencode(["lambda:InvokeFunction", "lambda:InvokeFunctionUrl"])
    error_message = "AWS asks for both rights."
  }

  assert {
    condition     = aws_lambda_permission.public["InvokeFunctionUrl"].function_url_auth_type == "NONE" && aws_lambda_permission.public["InvokeFunctionUrl"].principal == "*"
    error_message = "The right is for a URL without signatures."
  }
}

run "a_public_url_without_tokens_is_refused" {
  command = plan

  module {
    source = "./modules/function"
  }

  variables {
    url = { auth = "NONE" }
  }

  expect_failures = [aws_lambda_function_url.this]
}

run "a_token_secret_that_is_null_is_none" {
  command = plan

  module {
    source = "./modules/function"
  }

  variables {
    url         = { auth = "NONE" }
    environment = { TIDELAKE_TOKEN_SECRET = null }
  }

  expect_failures = [aws_lambda_function_url.this]
}

run "all_actions_are_refused" {
  command = plan

  module {
    source = "./modules/function"
  }

  variables {
    statements = [{ Sid = "A", Action = ["s3:*"], Resource = ["arn:aws:s3:::b/*"] }]
  }

  expect_failures = [var.statements]
}

run "all_resources_are_refused" {
  command = plan

  module {
    source = "./modules/function"
  }

  variables {
    statements = [{ Sid = "A", Action = ["s3:GetObject"], Resource = ["*"] }]
  }

  expect_failures = [var.statements]
}

run "wrong_sizes_are_refused" {
  command = plan

  module {
    source = "./modules/function"
  }

  variables {
    memory               = 64
    timeout              = 901
    ephemeral_storage    = 100
    reserved_concurrency = -2
    log_retention_days   = 2
    architecture         = "x86"
    package              = "s3://bucket"
    url                  = { auth = "none" }
  }

  expect_failures = [
    var.memory, var.timeout, var.ephemeral_storage, var.reserved_concurrency, var.log_retention_days, var.architecture, var.package,
    var.url,
  ]
}

run "what_lambda_refuses_is_refused" {
  command = plan

  module {
    source = "./modules/function"
  }

  variables {
    description = join("", [for _ in range(257) : "x"])
    environment = { "1_STORE" = "s3://b/k" }
    tags        = { "aws:name" = "tidelake" }
  }

  expect_failures = [var.description, var.environment, var.tags]
}
