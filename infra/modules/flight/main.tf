# Tasks that serve Flight SQL and HTTP. They are stateless: any task answers any call, and any task may end.

data "aws_partition" "current" {}
data "aws_region" "current" {}
data "aws_caller_identity" "current" {}

module "access" {
  source = "../access"
  store  = var.store
}

locals {
  region = data.aws_region.current.name
  port   = 8086
  # The task's disk, for spill files and the disk cache. The rest of the file system is read-only. The image declares a
  # volume at this path, of the server's user: without it, Fargate would give the disk to root.
  disk      = "/var/lib/tidelake/disk"
  log_group = "/ecs/${var.name}"

  # With auth off, the server accepts only the host names that clients connect to.
  names = [var.hostname, aws_lb.this.dns_name, var.namespace == null ? "" : "${var.name}.${var.namespace}"]

  environment = {
    for name, value in merge(
      {
        AWS_REGION               = local.region
        TIDELAKE_ALLOWED_HOSTS   = var.auth == "off" ? join(",", compact(local.names)) : null
        TIDELAKE_AUTH            = var.auth
        TIDELAKE_STORE           = var.store.url
        TIDELAKE_LISTEN          = "0.0.0.0:${local.port}"
        TIDELAKE_LOG             = var.log_level
        TIDELAKE_LOG_FORMAT      = "json"
        TIDELAKE_DISK_CACHE      = var.disk_cache_size == null ? null : "${local.disk}/cache"
        TIDELAKE_DISK_CACHE_SIZE = var.disk_cache_size
        TMPDIR                   = local.disk
      },
      var.environment,
    ) : name => value if value != null
  }

  admin_password = var.admin_password_secret_arn == null ? [] : [var.admin_password_secret_arn]

  # A task is a complete server: it also accepts rows, folds and merges.
  policy = jsonencode({
    Version   = "2012-10-17"
    Statement = module.access.compact
  })

  container = {
    name                   = "server"
    image                  = var.image
    essential              = true
    user                   = "65532:65532"
    readonlyRootFilesystem = true
    # Time to close connections and flush accepted rows.
    stopTimeout     = 60
    linuxParameters = { initProcessEnabled = true }
    environment     = [for name in sort(keys(local.environment)) : { name = name, value = local.environment[name] }]
    portMappings    = [{ containerPort = local.port, hostPort = local.port, protocol = "tcp" }]
    mountPoints     = [{ sourceVolume = "disk", containerPath = local.disk, readOnly = false }]
    secrets         = [for arn in local.admin_password : { name = "TIDELAKE_ADMIN_PASSWORD", valueFrom = arn }]
    systemControls  = []
    volumesFrom     = []
    logConfiguration = {
      logDriver = "awslogs"
      options = {
        awslogs-group         = local.log_group
        awslogs-region        = local.region
        awslogs-stream-prefix = "server"
      }
    }
  }
}

resource "aws_cloudwatch_log_group" "this" {
  #checkov:skip=CKV_AWS_158:CloudWatch encrypts logs with keys of its own; they hold no rows
  #checkov:skip=CKV_AWS_338:How long logs are kept is a variable
  name              = local.log_group
  retention_in_days = var.log_retention_days
  tags              = var.tags
}

resource "aws_iam_role" "task" {
  name = "${var.name}-task"
  tags = var.tags
  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Principal = { Service = "ecs-tasks.amazonaws.com" }
      Action    = "sts:AssumeRole"
      Condition = { StringEquals = { "aws:SourceAccount" = data.aws_caller_identity.current.account_id } }
    }]
  })
}

resource "aws_iam_role_policy" "task" {
  name   = "root"
  role   = aws_iam_role.task.id
  policy = local.policy
}

# Execution role: pulls the image, creates log streams and reads the first password.
resource "aws_iam_role" "execution" {
  name = "${var.name}-start"
  tags = var.tags
  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Principal = { Service = "ecs-tasks.amazonaws.com" }
      Action    = "sts:AssumeRole"
      Condition = { StringEquals = { "aws:SourceAccount" = data.aws_caller_identity.current.account_id } }
    }]
  })
}

resource "aws_iam_role_policy" "execution" {
  name = "start"
  role = aws_iam_role.execution.id
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = concat(
      [
        {
          Sid      = "WriteLogs"
          Effect   = "Allow"
          Action   = ["logs:CreateLogStream", "logs:PutLogEvents"]
          Resource = ["arn:${data.aws_partition.current.partition}:logs:${local.region}:${data.aws_caller_identity.current.account_id}:log-group:${local.log_group}:*"]
        },
      ],
      [
        for statement in [
          {
            Sid      = "PullImage"
            Effect   = "Allow"
            Action   = ["ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"]
            Resource = [var.image_repository_arn]
          },
          # A registry token cannot be restricted to one repository.
          { Sid = "LogIn", Effect = "Allow", Action = ["ecr:GetAuthorizationToken"], Resource = ["*"] },
        ] : statement if var.image_repository_arn != null
      ],
      [
        for arn in local.admin_password :
        { Sid = "ReadAdminPassword", Effect = "Allow", Action = ["secretsmanager:GetSecretValue"], Resource = [arn] }
      ],
    )
  })
}

resource "aws_ecs_cluster" "this" {
  #checkov:skip=CKV_AWS_65:Container insights are billed by the metric; processor and memory of the service are there without
  name = var.name
  tags = var.tags
}

resource "aws_ecs_task_definition" "this" {
  family                   = var.name
  requires_compatibilities = ["FARGATE"]
  network_mode             = "awsvpc"
  cpu                      = var.cpu
  memory                   = var.memory
  task_role_arn            = aws_iam_role.task.arn
  execution_role_arn       = aws_iam_role.execution.arn
  container_definitions    = jsonencode([local.container])
  tags                     = var.tags

  runtime_platform {
    operating_system_family = "LINUX"
    cpu_architecture        = var.architecture == "arm64" ? "ARM64" : "X86_64"
  }

  volume {
    name = "disk"
  }

  dynamic "ephemeral_storage" {
    for_each = var.disk_gib == null ? [] : [var.disk_gib]

    content {
      size_in_gib = ephemeral_storage.value
    }
  }
}

resource "aws_ecs_service" "this" {
  #checkov:skip=CKV_AWS_333:Public addresses are a variable, off by default; the security group admits the load balancer
  name                              = var.name
  cluster                           = aws_ecs_cluster.this.id
  task_definition                   = aws_ecs_task_definition.this.arn
  launch_type                       = "FARGATE"
  platform_version                  = "LATEST"
  desired_count                     = var.min_tasks
  health_check_grace_period_seconds = 60
  propagate_tags                    = "SERVICE"
  tags                              = var.tags

  deployment_circuit_breaker {
    enable   = true
    rollback = true
  }

  network_configuration {
    subnets          = var.subnet_ids
    security_groups  = [aws_security_group.task.id]
    assign_public_ip = var.assign_public_ip
  }

  load_balancer {
    target_group_arn = aws_lb_target_group.this.arn
    container_name   = local.container.name
    container_port   = local.port
  }

  dynamic "service_registries" {
    for_each = aws_service_discovery_service.this

    content {
      registry_arn = service_registries.value.arn
    }
  }

  lifecycle {
    # The autoscaler controls the number of tasks.
    ignore_changes = [desired_count]
  }

  depends_on = [aws_lb_listener.this, aws_iam_role_policy.task, aws_iam_role_policy.execution]
}

resource "aws_appautoscaling_target" "this" {
  service_namespace  = "ecs"
  scalable_dimension = "ecs:service:DesiredCount"
  resource_id        = "service/${aws_ecs_cluster.this.name}/${aws_ecs_service.this.name}"
  min_capacity       = var.min_tasks
  max_capacity       = var.max_tasks
  tags               = var.tags
}

resource "aws_appautoscaling_policy" "cpu" {
  name               = "${var.name}-cpu"
  policy_type        = "TargetTrackingScaling"
  service_namespace  = aws_appautoscaling_target.this.service_namespace
  scalable_dimension = aws_appautoscaling_target.this.scalable_dimension
  resource_id        = aws_appautoscaling_target.this.resource_id

  target_tracking_scaling_policy_configuration {
    target_value       = var.cpu_target
    scale_out_cooldown = 60
    # A node's caches are lost when it ends.
    scale_in_cooldown = 600

    predefined_metric_specification {
      predefined_metric_type = "ECSServiceAverageCPUUtilization"
    }
  }
}
