mock_provider "aws" {
  source = "./tests/mocks"
}

variables {
  store           = { url = "s3://bucket/root", bucket_arn = "arn:aws:s3:::bucket", prefix = "root" }
  image           = "registry.example.com/tidelake:1.0.0"
  vpc_id          = "vpc-1"
  subnet_ids      = ["subnet-1", "subnet-2"]
  allowed_cidrs   = ["10.0.0.0/8"]
  certificate_arn = "arn:aws:acm:us-east-1:123456789012:certificate/c"
  hostname        = "flight.example.com"
}

run "tasks_without_rights_of_the_system_behind_tls" {
  module {
    source = "./modules/flight"
  }

  assert {
    condition = alltrue([
      for c in jsondecode(aws_ecs_task_definition.this.container_definitions) :
      c.user == "65532:65532" && c.readonlyRootFilesystem && c.portMappings[0].containerPort == 8086
    ])
    error_message = "The server is nobody, and writes to its disk alone."
  }

  assert {
    condition = jsonencode(output.environment) == jsonencode({
      AWS_REGION               = "us-east-1"
      TIDELAKE_AUTH            = "on"
      TIDELAKE_DISK_CACHE      = "/var/lib/tidelake/disk/cache"
      TIDELAKE_DISK_CACHE_SIZE = "10GiB"
      TIDELAKE_LISTEN          = "0.0.0.0:8086"
      TIDELAKE_LOG             = "info"
      TIDELAKE_LOG_FORMAT      = "json"
      TIDELAKE_STORE           = "s3://bucket/root"
      TMPDIR                   = "/var/lib/tidelake/disk"
    })
    error_message = "The server listens to the load balancer and logs JSON."
  }

  assert {
    condition     = jsonencode({ for v in jsondecode(aws_ecs_task_definition.this.container_definitions)[0].environment : v.name => v.value }) == jsonencode(output.environment)
    error_message = "The task has that environment."
  }

  assert {
    condition     = aws_lb.this.load_balancer_type == "network" && aws_lb.this.internal && aws_lb_listener.this.protocol == "TLS" && aws_lb_listener.this.port == 443 && aws_lb_listener.this.alpn_policy == "HTTP2Preferred"
    error_message = "Clients connect over TLS and agree on HTTP/2."
  }

  assert {
    condition     = aws_lb_target_group.this.protocol == "TCP" && aws_lb_target_group.this.port == 8086 && aws_lb_target_group.this.health_check[0].protocol == "HTTP" && aws_lb_target_group.this.health_check[0].path == "/health"
    error_message = "A task gets connections while it says that it is well."
  }

  assert {
    condition     = tobool(aws_lb_target_group.this.preserve_client_ip)
    error_message = "The server sees the address of each client and not the load balancer's."
  }

  assert {
    condition     = jsonencode(keys(aws_vpc_security_group_ingress_rule.clients)) == jsonencode(["10.0.0.0/8"]) && length(aws_vpc_security_group_ingress_rule.direct) == 0 && aws_vpc_security_group_ingress_rule.from_load_balancer.cidr_ipv4 == null
    error_message = "Only the given networks reach the load balancer, and only it reaches the tasks."
  }

  assert {
    condition     = jsonencode(jsondecode(output.policy).Statement[*].Sid) == jsonencode(["ReadRoot", "ListRoot", "WriteAndCollectRoot"])
    error_message = "A server has the rights of compaction, those of a writer among them."
  }

  assert {
    condition     = !strcontains(aws_iam_role_policy.execution.policy, "ecr:") && !strcontains(aws_iam_role_policy.execution.policy, "s3:")
    error_message = "What starts tasks needs no right on images that anybody may pull, and none on the root."
  }

  assert {
    condition     = aws_appautoscaling_target.this.min_capacity == 1 && aws_appautoscaling_target.this.max_capacity == 4 && aws_appautoscaling_policy.cpu.target_tracking_scaling_policy_configuration[0].target_value == 60
    error_message = "There are one to four tasks."
  }

  assert {
    condition     = output.jdbc_url == "jdbc:arrow-flight-sql://flight.example.com:443?useEncryption=true" && output.endpoint == "flight.example.com:443" && output.discovery_name == "tidelake-flight.tidelake.internal"
    error_message = "Clients know where to connect."
  }

  assert {
    condition     = length(aws_service_discovery_service.this) == 1 && length(aws_ecs_service.this.service_registries) == 1 && length(aws_vpc_endpoint.s3) == 0 && length(aws_route53_record.this) == 0
    error_message = "Tasks are listed by Cloud Map; nobody asked for an endpoint and a name."
  }
}

run "the_disk_is_the_servers" {
  module {
    source = "./modules/flight"
  }

  assert {
    condition = alltrue([
      for mount in jsondecode(aws_ecs_task_definition.this.container_definitions)[0].mountPoints :
      mount.containerPath == one(regex("(?m)^VOLUME (\\S+)$", file("image/Dockerfile"))) && startswith(output.environment.TIDELAKE_DISK_CACHE, "${mount.containerPath}/") && output.environment.TMPDIR == mount.containerPath && !mount.readOnly
    ])
    error_message = "The task's disk lies where the image declares a volume, which Fargate would otherwise give to root."
  }

  assert {
    condition = (
      regex("--chown=(\\S+) /made/ (\\S+)/\n", file("image/Dockerfile"))[0] == jsondecode(aws_ecs_task_definition.this.container_definitions)[0].user
      && output.environment.TMPDIR == "${regex("--chown=(\\S+) /made/ (\\S+)/\n", file("image/Dockerfile"))[1]}/disk"
    )
    error_message = "The directory of the image belongs to the user of the task."
  }
}

run "all_that_can_be_asked_for" {
  module {
    source = "./modules/flight"
  }

  variables {
    image                    = "123456789012.dkr.ecr.us-east-1.amazonaws.com/tidelake@sha256:0000000000000000000000000000000000000000000000000000000000000000"
    image_repository_arn     = "arn:aws:ecr:us-east-1:123456789012:repository/tidelake"
    s3_endpoint_route_tables = ["rtb-1"]
    zone_id                  = "Z1"
    direct_cidrs             = ["10.1.0.0/16"]
    disk_gib                 = 100
    disk_cache_size          = null
    namespace                = null
    architecture             = "arm64"
    allowed_cidrs            = ["0.0.0.0/0"]

    admin_password_secret_arn = "arn:aws:secretsmanager:us-east-1:123456789012:secret:admin"
  }

  assert {
    condition     = jsonencode(jsondecode(aws_ecs_task_definition.this.container_definitions)[0].secrets) == jsonencode([{ name = "TIDELAKE_ADMIN_PASSWORD", valueFrom = "arn:aws:secretsmanager:us-east-1:123456789012:secret:admin" }])
    error_message = "The first password comes from the secret, which no environment shows."
  }

  assert {
    condition     = jsonencode([for s in jsondecode(aws_iam_role_policy.execution.policy).Statement : s.Resource if s.Sid == "ReadAdminPassword"]) == jsonencode([["arn:aws:secretsmanager:us-east-1:123456789012:secret:admin"]])
    error_message = "What starts tasks reads that secret and no other."
  }

  assert {
    condition     = jsonencode([for s in jsondecode(aws_iam_role_policy.execution.policy).Statement : s.Resource if s.Sid == "PullImage"]) == jsonencode([["arn:aws:ecr:us-east-1:123456789012:repository/tidelake"]])
    error_message = "One repository may be pulled from."
  }

  assert {
    condition     = aws_vpc_endpoint.s3[0].service_name == "com.amazonaws.us-east-1.s3" && aws_vpc_endpoint.s3[0].vpc_endpoint_type == "Gateway"
    error_message = "S3 is reached by a gateway endpoint."
  }

  assert {
    condition     = aws_route53_record.this[0].name == "flight.example.com" && length(aws_vpc_security_group_ingress_rule.direct) == 1
    error_message = "There is a name and a direct way."
  }

  assert {
    condition     = length(aws_service_discovery_private_dns_namespace.this) == 0 && output.discovery_name == null && !can(output.environment.TIDELAKE_DISK_CACHE)
    error_message = "There is no service discovery and no disk cache."
  }

  assert {
    condition     = aws_ecs_task_definition.this.runtime_platform[0].cpu_architecture == "ARM64" && aws_ecs_task_definition.this.ephemeral_storage[0].size_in_gib == 100
    error_message = "Tasks run on the other processor with a larger disk."
  }
}

run "a_server_that_asks_nobody_answers_for_its_own_names" {
  module {
    source = "./modules/flight"
  }

  variables {
    auth = "off"
  }

  assert {
    condition     = output.environment.TIDELAKE_ALLOWED_HOSTS == "flight.example.com,mock.elb.us-east-1.amazonaws.com,tidelake-flight.tidelake.internal"
    error_message = "Clients connect by the name of the certificate, of the load balancer or of the tasks."
  }
}

run "the_whole_internet_is_refused_where_everybody_is_let_in" {
  command = plan

  module {
    source = "./modules/flight"
  }

  variables {
    allowed_cidrs = ["0.0.0.0/0"]
    auth          = "off"
  }

  expect_failures = [var.allowed_cidrs]
}

run "wrong_values_are_refused" {
  command = plan

  module {
    source = "./modules/flight"
  }

  variables {
    image           = "tidelake:latest"
    cpu             = 1000
    max_tasks       = 0
    certificate_arn = "certificate"
    hostname        = "https://flight.example.com"
    direct_cidrs    = ["10.0.0.0"]
    disk_gib        = 10
    subnet_ids      = []
    auth            = "maybe"

    admin_password_secret_arn = "password"
  }

  expect_failures = [
    var.auth, var.admin_password_secret_arn, var.image, var.cpu, var.max_tasks, var.certificate_arn, var.hostname, var.direct_cidrs, var.disk_gib,
    var.subnet_ids,
  ]
}

run "what_is_no_id_is_refused" {
  command = plan

  module {
    source = "./modules/flight"
  }

  variables {
    store                    = { url = "s3://bucket/root", bucket_arn = "bucket", prefix = "root" }
    vpc_id                   = "10.0.0.0/16"
    subnet_ids               = ["10.0.0.0/24"]
    load_balancer_subnet_ids = []
    zone_id                  = "example.com"
    s3_endpoint_route_tables = ["main"]
    environment              = { "TIDELAKE-LOG" = "debug" }
    log_level                = "info,loud"
    log_retention_days       = 2
    tags                     = { "aws:name" = "tidelake" }
  }

  expect_failures = [
    var.store, var.vpc_id, var.subnet_ids, var.load_balancer_subnet_ids, var.zone_id, var.s3_endpoint_route_tables, var.environment, var.log_level,
    var.log_retention_days, var.tags,
  ]
}

run "too_little_is_refused" {
  command = plan

  module {
    source = "./modules/flight"
  }

  variables {
    cpu       = 1024
    memory    = 1024
    min_tasks = 0
  }

  expect_failures = [var.memory, var.min_tasks]
}
