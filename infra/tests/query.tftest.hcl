mock_provider "aws" {
  source = "./tests/mocks"
}

variables {
  store   = { url = "s3://bucket/root", bucket_arn = "arn:aws:s3:::bucket", prefix = "root" }
  package = "s3://artifacts/1.0.0/query-http.zip"
}

run "a_reader_puts_results_only" {
  module {
    source = "./modules/query"
  }

  assert {
    condition     = jsonencode(output.environment) == jsonencode({ TIDELAKE_LOG = "info", TIDELAKE_QUERY_TIMEOUT = "55s", TIDELAKE_RESPONSE = "stream", TIDELAKE_STORE = "s3://bucket/root" })
    error_message = "It streams its answers."
  }

  assert {
    condition     = jsonencode(jsondecode(output.policy).Statement[*].Sid) == jsonencode(["ReadRoot", "ListRoot", "KeepLargeResults", "WriteLogs"])
    error_message = "It has the rights of a reader."
  }

  assert {
    condition     = !anytrue([for s in jsondecode(output.policy).Statement : contains(s.Action, "s3:DeleteObject")])
    error_message = "It deletes nothing."
  }
}

run "users_of_the_root_come_in_by_their_names" {
  module {
    source = "./modules/query"
  }

  variables {
    auth  = "NONE"
    users = true
  }

  assert {
    condition     = output.environment.TIDELAKE_AUTH == "users" && !can(output.environment.TIDELAKE_TOKEN_SECRET)
    error_message = "The function asks the root who may come in."
  }
}

run "answers_can_be_buffered" {
  module {
    source = "./modules/query"
  }

  variables {
    response          = "buffered"
    ephemeral_storage = 4096
  }

  assert {
    condition     = output.environment.TIDELAKE_RESPONSE == "buffered"
    error_message = "The function knows how it is answered."
  }
}

run "anybody_without_a_token_is_refused" {
  command = plan

  module {
    source = "./modules/query"
  }

  variables {
    auth = "NONE"
  }

  expect_failures = [var.auth]
}

run "another_way_to_answer_is_refused" {
  command = plan

  module {
    source = "./modules/query"
  }

  variables {
    response = "chunked"
  }

  expect_failures = [var.response]
}

run "a_query_ends_before_its_invocation" {
  module {
    source = "./modules/query"
  }

  variables {
    timeout = 300
  }

  assert {
    condition     = output.environment.TIDELAKE_QUERY_TIMEOUT == "295s"
    error_message = "A query has the time that the function has, but for some seconds to answer."
  }
}

run "a_query_of_a_short_invocation_ends_before_it_too" {
  module {
    source = "./modules/query"
  }

  variables {
    timeout = 3
  }

  assert {
    condition     = output.environment.TIDELAKE_QUERY_TIMEOUT == "2s"
    error_message = "Something is left to a query, and to the answer."
  }
}

run "a_timeout_of_your_own_counts" {
  module {
    source = "./modules/query"
  }

  variables {
    timeout     = 20
    environment = { TIDELAKE_QUERY_TIMEOUT = "10s" }
  }

  assert {
    condition     = output.environment.TIDELAKE_QUERY_TIMEOUT == "10s"
    error_message = "More settings come last."
  }
}

run "wrong_values_are_refused" {
  command = plan

  module {
    source = "./modules/query"
  }

  variables {
    name                     = "query http"
    store                    = { url = "bucket/root", bucket_arn = "arn:aws:s3:::bucket", prefix = "root" }
    package                  = "query-http"
    architecture             = "riscv64"
    memory                   = 64
    timeout                  = 901
    reserved_concurrency     = -2
    token_secret_kms_key_arn = "k"
    ephemeral_storage        = 100
    log_level                = "verbose"
    log_retention_days       = 2
    vpc                      = { subnet_ids = [], security_group_ids = ["sg-1"] }
  }

  expect_failures = [
    var.name, var.store, var.package, var.architecture, var.memory, var.timeout, var.reserved_concurrency, var.token_secret_kms_key_arn,
    var.ephemeral_storage, var.log_level, var.log_retention_days, var.vpc,
  ]
}
