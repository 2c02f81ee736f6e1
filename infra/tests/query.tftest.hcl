mock_provider "aws" {
  source = "./tests/mocks"
}

variables {
  function = {
    store   = { url = "s3://bucket/root", bucket_arn = "arn:aws:s3:::bucket", prefix = "root" }
    package = "s3://artifacts/1.0.0/query-http.zip"
  }
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
    url = {
      auth  = "NONE"
      users = true
    }
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
    function = merge(var.function, {
      ephemeral_storage = 4096
    })
    response = "buffered"
  }

  assert {
    condition     = output.environment.TIDELAKE_RESPONSE == "buffered"
    error_message = "The function knows how it is answered."
  }
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
    function = merge(var.function, {
      timeout = 300
    })
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
    function = merge(var.function, {
      timeout = 3
    })
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
    function = merge(var.function, {
      timeout     = 20
      environment = { TIDELAKE_QUERY_TIMEOUT = "10s" }
    })
  }

  assert {
    condition     = output.environment.TIDELAKE_QUERY_TIMEOUT == "10s"
    error_message = "More settings come last."
  }
}
