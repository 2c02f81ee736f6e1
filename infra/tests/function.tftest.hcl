mock_provider "aws" {
  source = "./tests/mocks"
}

variables {
  settings = {
    store   = { url = "s3://bucket/root", bucket_arn = "arn:aws:s3:::bucket", prefix = "root" }
    package = "s3://artifacts/1.0.0/one.zip"
    name    = "tidelake-one"
  }
  rights = "query"
}

run "a_function_has_its_log_and_nothing_else" {
  module {
    source = "./modules/function"
  }

  assert {
    condition = jsonencode([for s in jsondecode(output.policy).Statement : s if !contains(["ReadRoot", "ListRoot", "KeepLargeResults"], s.Sid)]) == jsonencode([
      {
        Sid      = "WriteLogs"
        Effect   = "Allow"
        Action   = ["logs:CreateLogStream", "logs:PutLogEvents"]
        Resource = ["arn:aws:logs:us-east-1:123456789012:log-group:/aws/lambda/tidelake-one:*"]
      },
    ])
    error_message = "Without statements, a function has its rights in the root and may write its log."
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
    settings = merge(var.settings, { package = "tests/packages/empty.zip" })
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
    condition     = jsonencode([for s in jsondecode(output.policy).Statement : s if s.Sid == "A"][0]) == jsonencode({ Sid = "A", Effect = "Allow", Action = ["s3:GetObject"], Resource = ["arn:aws:s3:::b/k/*"] })
    error_message = "A statement without a condition has none."
  }

  assert {
    condition     = jsonencode([for s in jsondecode(output.policy).Statement : s if s.Sid == "B"][0].Condition) == jsonencode({ StringLike = { "s3:prefix" = ["k/*"] } })
    error_message = "A condition is kept."
  }
}

run "traces_and_networks_bring_their_rights" {
  module {
    source = "./modules/function"
  }

  variables {
    settings = merge(var.settings, {
      tracing = true
      vpc     = { subnet_ids = ["subnet-1"], security_group_ids = ["sg-1"] }
    })
  }

  assert {
    condition     = jsonencode(jsondecode(output.policy).Statement[*].Sid) == jsonencode(["ReadRoot", "ListRoot", "KeepLargeResults", "WriteLogs", "WriteTraces", "JoinNetwork"])
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
    settings    = merge(var.settings, { environment = { TIDELAKE_LOG = null, TIDELAKE_RESPONSE = "buffered" } })
    environment = { TIDELAKE_RESPONSE = "stream", TIDELAKE_MAX_BODY = null }
  }

  assert {
    condition     = jsonencode(aws_lambda_function.this.environment[0].variables) == jsonencode({ TIDELAKE_RESPONSE = "buffered", TIDELAKE_STORE = "s3://bucket/root" })
    error_message = "Only what has a value is in the environment, and settings come last."
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
    url = { auth = "NONE", invoke_mode = "RESPONSE_STREAM", token_secret_arn = "arn:aws:secretsmanager:us-east-1:123456789012:secret:tokens" }
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

run "a_token_secret_that_is_null_is_none" {
  command = plan

  module {
    source = "./modules/function"
  }

  variables {
    settings = merge(var.settings, { environment = { TIDELAKE_TOKEN_SECRET = null } })
    url      = { auth = "NONE", token_secret_arn = "arn:aws:secretsmanager:us-east-1:123456789012:secret:tokens" }
  }

  expect_failures = [aws_lambda_function_url.this]
}

run "settings_that_are_null_take_their_defaults" {
  module {
    source = "./modules/function"
  }

  variables {
    settings = merge(var.settings, {
      architecture = null
      memory       = null
      timeout      = null
      environment  = null
      log_level    = null
      tags         = null
    })
  }

  assert {
    condition     = one(aws_lambda_function.this.architectures) == "x86_64" && aws_lambda_function.this.memory_size == 512 && aws_lambda_function.this.timeout == 30 && output.environment.TIDELAKE_LOG == "info"
    error_message = "Null is what is not set."
  }
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

run "a_long_description_is_refused" {
  command = plan

  module {
    source = "./modules/function"
  }

  variables {
    description = join("", [for _ in range(257) : "x"])
  }

  expect_failures = [var.description]
}

run "other_rights_are_refused" {
  command = plan

  module {
    source = "./modules/function"
  }

  variables {
    rights = "data"
  }

  expect_failures = [var.rights]
}

# One run per invalid setting: with several in one run, any of them would make it fail.

run "a_name_with_a_space_is_refused" {
  command = plan

  module {
    source = "./modules/function"
  }

  variables {
    settings = merge(var.settings, { name = "ingest http" })
  }

  expect_failures = [var.settings]
}

run "no_name_is_refused" {
  command = plan

  module {
    source = "./modules/function"
  }

  variables {
    settings = merge(var.settings, { name = "" })
  }

  expect_failures = [var.settings]
}

run "a_package_that_is_no_zip_is_refused" {
  command = plan

  module {
    source = "./modules/function"
  }

  variables {
    settings = merge(var.settings, { package = "ingest-http" })
  }

  expect_failures = [var.settings]
}

run "a_bucket_without_a_key_is_refused" {
  command = plan

  module {
    source = "./modules/function"
  }

  variables {
    settings = merge(var.settings, { package = "s3://artifacts.zip" })
  }

  expect_failures = [var.settings]
}

run "another_architecture_is_refused" {
  command = plan

  module {
    source = "./modules/function"
  }

  variables {
    settings = merge(var.settings, { architecture = "riscv64" })
  }

  expect_failures = [var.settings]
}

run "too_little_memory_is_refused" {
  command = plan

  module {
    source = "./modules/function"
  }

  variables {
    settings = merge(var.settings, { memory = 64 })
  }

  expect_failures = [var.settings]
}

run "too_much_memory_is_refused" {
  command = plan

  module {
    source = "./modules/function"
  }

  variables {
    settings = merge(var.settings, { memory = 20000 })
  }

  expect_failures = [var.settings]
}

run "too_little_time_is_refused" {
  command = plan

  module {
    source = "./modules/function"
  }

  variables {
    settings = merge(var.settings, { timeout = 1 })
  }

  expect_failures = [var.settings]
}

run "too_much_time_is_refused" {
  command = plan

  module {
    source = "./modules/function"
  }

  variables {
    settings = merge(var.settings, { timeout = 901 })
  }

  expect_failures = [var.settings]
}

run "too_small_a_disk_is_refused" {
  command = plan

  module {
    source = "./modules/function"
  }

  variables {
    settings = merge(var.settings, { ephemeral_storage = 100 })
  }

  expect_failures = [var.settings]
}

run "negative_concurrency_is_refused" {
  command = plan

  module {
    source = "./modules/function"
  }

  variables {
    settings = merge(var.settings, { reserved_concurrency = -2 })
  }

  expect_failures = [var.settings]
}

run "half_an_invocation_is_refused" {
  command = plan

  module {
    source = "./modules/function"
  }

  variables {
    settings = merge(var.settings, { reserved_concurrency = 0.5 })
  }

  expect_failures = [var.settings]
}

run "a_variable_that_begins_with_a_digit_is_refused" {
  command = plan

  module {
    source = "./modules/function"
  }

  variables {
    settings = merge(var.settings, { environment = { "1_STORE" = "s3://b/k" } })
  }

  expect_failures = [var.settings]
}

run "an_unknown_level_is_refused" {
  command = plan

  module {
    source = "./modules/function"
  }

  variables {
    settings = merge(var.settings, { log_level = "verbose" })
  }

  expect_failures = [var.settings]
}

run "an_unknown_level_of_a_part_is_refused" {
  command = plan

  module {
    source = "./modules/function"
  }

  variables {
    settings = merge(var.settings, { log_level = "tidelake_ingest=loud" })
  }

  expect_failures = [var.settings]
}

run "two_days_of_logs_is_refused" {
  command = plan

  module {
    source = "./modules/function"
  }

  variables {
    settings = merge(var.settings, { log_retention_days = 2 })
  }

  expect_failures = [var.settings]
}

run "a_network_without_subnets_is_refused" {
  command = plan

  module {
    source = "./modules/function"
  }

  variables {
    settings = merge(var.settings, { vpc = { subnet_ids = [], security_group_ids = ["sg-1"] } })
  }

  expect_failures = [var.settings]
}

run "a_network_without_groups_is_refused" {
  command = plan

  module {
    source = "./modules/function"
  }

  variables {
    settings = merge(var.settings, { vpc = { subnet_ids = ["subnet-1"], security_group_ids = [] } })
  }

  expect_failures = [var.settings]
}

run "a_subnet_by_its_addresses_is_refused" {
  command = plan

  module {
    source = "./modules/function"
  }

  variables {
    settings = merge(var.settings, { vpc = { subnet_ids = ["10.0.0.0/24"], security_group_ids = ["sg-1"] } })
  }

  expect_failures = [var.settings]
}

run "a_group_by_its_name_is_refused" {
  command = plan

  module {
    source = "./modules/function"
  }

  variables {
    settings = merge(var.settings, { vpc = { subnet_ids = ["subnet-1"], security_group_ids = ["default"] } })
  }

  expect_failures = [var.settings]
}

run "a_tag_of_aws_is_refused" {
  command = plan

  module {
    source = "./modules/function"
  }

  variables {
    settings = merge(var.settings, { tags = { "aws:name" = "tidelake" } })
  }

  expect_failures = [var.settings]
}

run "a_misspelt_setting_is_refused" {
  command = plan

  module {
    source = "./modules/function"
  }

  variables {
    names = { settings = ["package", "memroy"] }
  }

  expect_failures = [var.settings]
}

run "another_way_to_ask_is_refused" {
  command = plan

  module {
    source = "./modules/function"
  }

  variables {
    url = { auth = "JWT" }
  }

  expect_failures = [var.url]
}

run "a_public_url_without_tokens_is_refused" {
  command = plan

  module {
    source = "./modules/function"
  }

  variables {
    url = { auth = "NONE" }
  }

  expect_failures = [var.url]
}

run "users_beside_a_secret_is_refused" {
  command = plan

  module {
    source = "./modules/function"
  }

  variables {
    url = { users = true, token_secret_arn = "arn:aws:secretsmanager:us-east-1:123456789012:secret:tokens" }
  }

  expect_failures = [var.url]
}

run "a_secret_by_its_name_is_refused" {
  command = plan

  module {
    source = "./modules/function"
  }

  variables {
    url = { token_secret_arn = "tokens" }
  }

  expect_failures = [var.url]
}

run "a_key_by_its_name_is_refused" {
  command = plan

  module {
    source = "./modules/function"
  }

  variables {
    url = { token_secret_arn = "arn:aws:secretsmanager:us-east-1:123456789012:secret:tokens", token_secret_kms_key_arn = "k" }
  }

  expect_failures = [var.url]
}

run "another_way_to_answer_is_refused" {
  command = plan

  module {
    source = "./modules/function"
  }

  variables {
    url = { invoke_mode = "CHUNKED" }
  }

  expect_failures = [var.url]
}

run "a_misspelt_setting_of_a_url_is_refused" {
  command = plan

  module {
    source = "./modules/function"
  }

  variables {
    url   = {}
    names = { url = ["auht"] }
  }

  expect_failures = [var.url]
}
