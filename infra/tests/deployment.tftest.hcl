# All parts together.

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
    compaction = { schedule = "rate(5 minutes)", collect_schedule = "rate(6 hours)", sweep_schedule = "never", reserved_concurrency = 1 }
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
    vpc = {
      subnet_ids               = ["subnet-1"]
      security_group_ids       = ["sg-1"]
      vpc_id                   = "vpc-1"
      s3_endpoint_route_tables = ["rtb-1"]
    }
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

  assert {
    condition     = length(setintersection(module.observability[0].alarms, ["plant-compaction-silent"])) == 1
    error_message = "Compaction that does not run is noticed."
  }

  assert {
    condition     = aws_vpc_endpoint.s3[0].vpc_id == "vpc-1" && aws_vpc_endpoint.s3[0].vpc_endpoint_type == "Gateway" && jsonencode(aws_vpc_endpoint.s3[0].route_table_ids) == jsonencode(["rtb-1"])
    error_message = "Functions in the VPC reach S3 by an endpoint that costs nothing."
  }

  assert {
    condition     = module.compaction[0].interval_seconds == 300 && jsonencode(module.compaction[0].schedules) == jsonencode({ collect = "rate(6 hours)", compact = "rate(5 minutes)" })
    error_message = "Each task has its schedule, or none."
  }
}

run "parts_can_be_left_out" {
  variables {
    ingest     = null
    query      = null
    compaction = { on_demand_only = true }

    observability = {}
  }

  assert {
    condition     = jsonencode(output.functions) == jsonencode({ compact = "tidelake-compact" }) && output.ingest_url == null && output.query_url == null && module.compaction[0].schedule == null
    error_message = "There is compaction on demand and nothing else."
  }

  assert {
    condition     = !anytrue([for name in ["tidelake-compaction-silent", "tidelake-log-lag"] : contains(module.observability[0].alarms, name)])
    error_message = "What nobody starts is not missed."
  }

  assert {
    condition     = length(aws_vpc_endpoint.s3) == 0
    error_message = "Nobody asked for an endpoint."
  }
}

run "wrong_values_are_refused" {
  command = plan

  variables {
    name         = "Tide_Lake"
    packages     = "packages/"
    architecture = "riscv64"

    log_level          = "verbose"
    log_retention_days = 2
    tags               = { "aws:name" = "tidelake" }
  }

  expect_failures = [var.name, var.packages, var.architecture, var.log_level, var.log_retention_days, var.tags]
}

run "an_endpoint_needs_its_vpc" {
  command = plan

  variables {
    vpc = { subnet_ids = ["subnet-1"], security_group_ids = ["sg-1"], s3_endpoint_route_tables = ["main"] }
  }

  expect_failures = [var.vpc]
}

run "a_route_table_has_one_endpoint" {
  command = plan

  variables {
    flight = {
      image                    = "registry.example.com/tidelake:1.0.0"
      vpc_id                   = "vpc-1"
      subnet_ids               = ["subnet-1"]
      allowed_cidrs            = ["10.0.0.0/8"]
      certificate_arn          = "arn:aws:acm:us-east-1:123456789012:certificate/c"
      hostname                 = "flight.example.com"
      s3_endpoint_route_tables = ["rtb-1"]
    }
    vpc = { subnet_ids = ["subnet-1"], security_group_ids = ["sg-1"], vpc_id = "vpc-1", s3_endpoint_route_tables = ["rtb-1"] }
  }

  expect_failures = [var.vpc]
}

run "cron_has_to_say_when_it_is_late" {
  command = plan

  variables {
    compaction    = { schedule = "cron(0/30 6-20 * * ? *)" }
    observability = {}
  }

  expect_failures = [var.observability]
}

run "cron_that_says_when_it_is_late" {
  variables {
    compaction    = { schedule = "cron(0/30 6-20 * * ? *)" }
    observability = { compaction_seconds = 36000 }
  }

  assert {
    condition     = contains(module.observability[0].alarms, "tidelake-compaction-silent")
    error_message = "It is watched."
  }
}
