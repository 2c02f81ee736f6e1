# Every example unchanged.

mock_provider "aws" {
  source = "./tests/mocks"
}

mock_provider "aws" {
  alias  = "replica"
  source = "./tests/mocks"
}

variables {
  packages = "s3://artifacts/1.0.0"
}

run "minimal" {
  module {
    source = "./examples/minimal"
  }

  assert {
    condition     = output.ingest_url != null && output.query_url != null
    error_message = "Rows can be written and asked for."
  }
}

run "queue" {
  module {
    source = "./examples/queue"
  }

  variables {
    email = "ops@example.com"
  }

  assert {
    condition     = output.queue_url != null && output.dead_letter_url != null && output.dashboard_name == "tidelake"
    error_message = "There is a queue and somebody watches it."
  }
}

run "flight" {
  module {
    source = "./examples/flight"
  }

  variables {
    image           = "registry.example.com/tidelake:1.0.0"
    vpc_id          = "vpc-1"
    subnet_ids      = ["subnet-1", "subnet-2"]
    allowed_cidrs   = ["10.0.0.0/8"]
    certificate_arn = "arn:aws:acm:us-east-1:123456789012:certificate/c"
    hostname        = "flight.example.com"
  }

  assert {
    condition     = output.jdbc_url == "jdbc:arrow-flight-sql://flight.example.com:443?useEncryption=true"
    error_message = "JDBC has a URL."
  }
}

run "replica" {
  module {
    source = "./examples/replica"
  }

  assert {
    condition     = output.replica_query_url != null && startswith(output.replica_store_url, "s3://")
    error_message = "The copy can be asked."
  }
}

run "localstack" {
  module {
    source = "./examples/localstack"
  }

  assert {
    condition     = jsonencode(keys(output.functions)) == jsonencode(["compact", "ingest-http", "ingest-queue", "query-http"])
    error_message = "All functions are there."
  }
}
