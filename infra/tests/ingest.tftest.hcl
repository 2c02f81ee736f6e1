mock_provider "aws" {
  source = "./tests/mocks"
}

variables {
  function = {
    store   = { url = "s3://bucket/root", bucket_arn = "arn:aws:s3:::bucket", prefix = "root" }
    package = "s3://artifacts/1.0.0/ingest-http.zip"
  }
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
    function = merge(var.function, {
      environment = { TIDELAKE_MAX_LINE = "64KiB" }
    })
    url = {
      auth                     = "NONE"
      token_secret_arn         = "arn:aws:secretsmanager:us-east-1:123456789012:secret:tokens"
      token_secret_kms_key_arn = "arn:aws:kms:us-east-1:123456789012:key/k"
    }
    max_body = "16MiB"
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

run "a_body_may_have_a_quarter_of_the_memory" {
  module {
    source = "./modules/ingest"
  }

  variables {
    function = merge(var.function, {
      memory = 512
    })
    max_body = "128MiB"
  }

  assert {
    condition     = output.environment.TIDELAKE_MAX_BODY == "128MiB"
    error_message = "It is as large as the function accepts."
  }
}

run "a_larger_body_is_refused" {
  command = plan

  module {
    source = "./modules/ingest"
  }

  variables {
    function = merge(var.function, {
      memory = 512
    })
    max_body = "131073KiB"
  }

  expect_failures = [var.max_body]
}

run "a_body_of_a_gibibyte_is_refused_with_any_memory" {
  command = plan

  module {
    source = "./modules/ingest"
  }

  variables {
    function = merge(var.function, {
      memory = 10240
    })
    max_body = "1GiB"
  }

  expect_failures = [var.max_body]
}

run "a_small_function_takes_what_is_usual" {
  module {
    source = "./modules/ingest"
  }

  variables {
    function = merge(var.function, {
      memory    = 128
      log_level = "WARN,tidelake_ingest=debug,tidelake::audit=off"
    })
    max_body = "16MiB"
  }

  assert {
    condition     = output.environment.TIDELAKE_MAX_BODY == "16MiB" && output.environment.TIDELAKE_LOG == "WARN,tidelake_ingest=debug,tidelake::audit=off"
    error_message = "Sixteen MiB are accepted with any memory, and levels for parts of the program are."
  }
}

run "users_of_the_root_come_in_by_their_names" {
  module {
    source = "./modules/ingest"
  }

  variables {
    url = {
      auth  = "NONE"
      users = true
    }
  }

  assert {
    condition     = output.environment.TIDELAKE_AUTH == "users" && !can(output.environment.TIDELAKE_TOKEN_SECRET) && !strcontains(output.policy, "secretsmanager")
    error_message = "The function asks the root who may come in, and reads no secret."
  }
}

run "what_is_no_size_is_refused" {
  command = plan

  module {
    source = "./modules/ingest"
  }

  variables {
    max_body = "16 MB"
  }

  expect_failures = [var.max_body]
}
