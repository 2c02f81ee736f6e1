mock_provider "aws" {
  source = "./tests/mocks"
}

variables {
  store   = { url = "s3://bucket/root", bucket_arn = "arn:aws:s3:::bucket", prefix = "root" }
  package = "s3://artifacts/1.0.0/ingest-http.zip"
}

run "a_writer_knows_its_root_and_creates_in_it" {
  module {
    source = "./modules/ingest"
  }

  assert {
    condition     = jsonencode(output.environment) == jsonencode({ TIDELAKE_AUTO_CREATE_DATABASE = "true", TIDELAKE_LOG = "info", TIDELAKE_STORE = "s3://bucket/root" })
    error_message = "Only what is set is in the environment."
  }

  assert {
    condition     = jsonencode(jsondecode(output.policy).Statement[*].Sid) == jsonencode(["ReadRoot", "ListRoot", "CreateVersionsAndSegments", "DeleteClockProbes", "WriteLogs"])
    error_message = "It has the rights of a writer."
  }

  assert {
    condition     = alltrue([for s in jsondecode(output.policy).Statement : !contains(s.Action, "s3:DeleteObject") || jsonencode(s.Resource) == jsonencode(["arn:aws:s3:::bucket/root/clock/*"])])
    error_message = "It deletes probes and nothing else."
  }

  assert {
    condition     = output.url == "https://mock.lambda-url.us-east-1.on.aws"
    error_message = "It has a URL."
  }
}

run "tokens_are_read_from_one_secret" {
  module {
    source = "./modules/ingest"
  }

  variables {
    auth                     = "NONE"
    token_secret_arn         = "arn:aws:secretsmanager:us-east-1:123456789012:secret:tokens"
    token_secret_kms_key_arn = "arn:aws:kms:us-east-1:123456789012:key/k"
    max_body                 = "16MiB"
    environment              = { TIDELAKE_MAX_LINE = "64KiB" }
  }

  assert {
    condition     = output.environment.TIDELAKE_TOKEN_SECRET == "arn:aws:secretsmanager:us-east-1:123456789012:secret:tokens" && output.environment.TIDELAKE_MAX_BODY == "16MiB" && output.environment.TIDELAKE_MAX_LINE == "64KiB"
    error_message = "The function hears of the secret, and of further settings."
  }

  assert {
    condition     = jsonencode({ for s in jsondecode(output.policy).Statement : s.Sid => s.Resource if endswith(s.Sid, "Tokens") }) == jsonencode({ DecryptTokens = ["arn:aws:kms:us-east-1:123456789012:key/k"], ReadTokens = ["arn:aws:secretsmanager:us-east-1:123456789012:secret:tokens"] })
    error_message = "It reads that secret and no other."
  }
}

run "users_of_the_root_come_in_by_their_names" {
  module {
    source = "./modules/ingest"
  }

  variables {
    auth  = "NONE"
    users = true
  }

  assert {
    condition     = output.environment.TIDELAKE_AUTH == "users" && !can(output.environment.TIDELAKE_TOKEN_SECRET) && !strcontains(output.policy, "secretsmanager")
    error_message = "The function asks the root who may come in, and reads no secret."
  }
}

run "users_beside_a_secret_are_refused" {
  command = plan

  module {
    source = "./modules/ingest"
  }

  variables {
    users            = true
    token_secret_arn = "arn:aws:secretsmanager:us-east-1:123456789012:secret:tokens"
  }

  expect_failures = [var.users]
}

run "anybody_without_a_token_is_refused" {
  command = plan

  module {
    source = "./modules/ingest"
  }

  variables {
    auth = "NONE"
  }

  # The function's URL refuses it too, but the variable is what is wrong.
  expect_failures = [var.auth]
}

run "wrong_values_are_refused" {
  command = plan

  module {
    source = "./modules/ingest"
  }

  variables {
    token_secret_arn = "tokens"
    max_body         = "16 MB"
    timeout          = 1
  }

  expect_failures = [var.token_secret_arn, var.max_body, var.timeout]
}

run "another_way_to_ask_is_refused" {
  command = plan

  module {
    source = "./modules/ingest"
  }

  variables {
    auth = "JWT"
  }

  expect_failures = [var.auth]
}
