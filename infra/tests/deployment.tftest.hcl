# The parts together.

mock_provider "aws" {
  source = "./tests/mocks"
}

variables {
  packages = "s3://artifacts/1.0.0"
}

run "by_default_there_is_nothing_that_bills_by_the_hour" {
  assert {
    condition     = jsonencode(output.functions) == jsonencode({ compact = "tidelake-compact", ingest-http = "tidelake-ingest-http", query-http = "tidelake-query-http" })
    error_message = "There are three functions."
  }

  assert {
    condition     = output.queue_url == null && output.jdbc_url == null && output.dashboard_name == null && output.topic_arn == null
    error_message = "There is no queue, no load balancer, no dashboard and no alarm."
  }

  assert {
    condition     = alltrue([for policy in values(output.policies) : !strcontains(policy, "kms:") && !strcontains(policy, "secretsmanager:")])
    error_message = "There is no key and no secret."
  }

  assert {
    condition     = alltrue([for e in values(output.environments) : e.TIDELAKE_STORE == output.store_url && e.TIDELAKE_LOG == "info"])
    error_message = "All work on one root."
  }

  assert {
    condition     = alltrue([for s in flatten([for policy in values(output.policies) : jsondecode(policy).Statement]) : !contains(s.Action, "s3:PutObject") || alltrue([for r in s.Resource : startswith(r, "arn:aws:s3:::tidelake-123456789012-us-east-1/tidelake/")])])
    error_message = "All put within the root."
  }

  assert {
    condition     = jsonencode(jsondecode(output.client_policy).Statement[0].Action) == jsonencode(["lambda:InvokeFunctionUrl", "lambda:InvokeFunction"])
    error_message = "Who signs requests needs both rights."
  }
}

run "all_of_it" {
  variables {
    name    = "plant"
    tracing = true
    storage = {
      kms_key_arn = "arn:aws:kms:us-east-1:123456789012:key/k"
      tiers       = [{ days = 90, class = "GLACIER_IR" }]
    }
    ingest = {
      auth             = "NONE"
      token_secret_arn = "arn:aws:secretsmanager:us-east-1:123456789012:secret:tokens"
    }
    queue      = { database = "metrics", fifo = true }
    compaction = { schedule = "rate(5 minutes)", reserved_concurrency = 1 }
    query      = { memory = 3008, ephemeral_storage = 4096, response = "buffered" }
    flight = {
      image           = "registry.example.com/tidelake:1.0.0"
      vpc_id          = "vpc-1"
      subnet_ids      = ["subnet-1"]
      allowed_cidrs   = ["10.0.0.0/8"]
      certificate_arn = "arn:aws:acm:us-east-1:123456789012:certificate/c"
      hostname        = "flight.example.com"
    }
    observability = { email = "ops@example.com", monthly_budget = 50 }
    vpc           = { subnet_ids = ["subnet-1"], security_group_ids = ["sg-1"] }
  }

  assert {
    condition     = jsonencode(keys(output.policies)) == jsonencode(["compact", "flight", "ingest-http", "ingest-queue", "query-http"])
    error_message = "There are five roles."
  }

  assert {
    condition     = alltrue([for policy in values(output.policies) : strcontains(policy, "arn:aws:kms:us-east-1:123456789012:key/k")])
    error_message = "All may use the key."
  }

  assert {
    condition     = [for name, policy in output.policies : name if strcontains(policy, "secretsmanager:")] == ["ingest-http"]
    error_message = "Only what looks at tokens reads the secret."
  }

  assert {
    condition     = output.jdbc_url == "jdbc:arrow-flight-sql://flight.example.com:443?useEncryption=true" && output.dashboard_name == "plant" && output.topic_arn != null
    error_message = "Clients and people find what they need."
  }

  assert {
    condition     = contains(module.observability[0].alarms, "plant-ingest-queue-dead.fifo-not-empty") && contains(module.observability[0].alarms, "plant-log-lag")
    error_message = "Dead letters and the log are watched."
  }
}

run "parts_can_be_left_out" {
  variables {
    ingest     = null
    query      = null
    compaction = { on_demand_only = true }
  }

  assert {
    condition     = jsonencode(output.functions) == jsonencode({ compact = "tidelake-compact" }) && output.ingest_url == null && output.query_url == null && module.compaction[0].schedule == null
    error_message = "There is compaction on demand and nothing else."
  }
}

run "wrong_values_are_refused" {
  command = plan

  variables {
    name         = "Tide_Lake"
    packages     = "packages/"
    architecture = "riscv64"
  }

  expect_failures = [var.name, var.packages, var.architecture]
}
