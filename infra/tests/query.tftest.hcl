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
    condition     = jsonencode(output.environment) == jsonencode({ TIDELAKE_LOG = "info", TIDELAKE_RESPONSE = "stream", TIDELAKE_STORE = "s3://bucket/root" })
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
