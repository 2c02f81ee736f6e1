# Access to the tasks: a load balancer that terminates TLS, and names within the VPC.

resource "aws_security_group" "load_balancer" {
  name        = "${var.name}-load-balancer"
  description = "Tidelake: clients to the load balancer"
  vpc_id      = var.vpc_id
  tags        = var.tags
}

resource "aws_vpc_security_group_ingress_rule" "clients" {
  for_each = toset(var.allowed_cidrs)

  security_group_id = aws_security_group.load_balancer.id
  description       = "Clients"
  cidr_ipv4         = each.value
  ip_protocol       = "tcp"
  from_port         = var.port
  to_port           = var.port
}

resource "aws_vpc_security_group_egress_rule" "to_tasks" {
  security_group_id            = aws_security_group.load_balancer.id
  description                  = "Tasks, and their health"
  referenced_security_group_id = aws_security_group.task.id
  ip_protocol                  = "tcp"
  from_port                    = local.port
  to_port                      = local.port
}

resource "aws_security_group" "task" {
  name        = "${var.name}-task"
  description = "Tidelake: the load balancer to tasks"
  vpc_id      = var.vpc_id
  tags        = var.tags
}

resource "aws_vpc_security_group_ingress_rule" "from_load_balancer" {
  security_group_id            = aws_security_group.task.id
  description                  = "The load balancer"
  referenced_security_group_id = aws_security_group.load_balancer.id
  ip_protocol                  = "tcp"
  from_port                    = local.port
  to_port                      = local.port
}

resource "aws_vpc_security_group_ingress_rule" "direct" {
  for_each = toset(var.direct_cidrs)

  security_group_id = aws_security_group.task.id
  description       = "Clients that find tasks by service discovery"
  cidr_ipv4         = each.value
  ip_protocol       = "tcp"
  from_port         = local.port
  to_port           = local.port
}

resource "aws_vpc_security_group_egress_rule" "aws" {
  security_group_id = aws_security_group.task.id
  description       = "S3, the registry of images, CloudWatch"
  cidr_ipv4         = "0.0.0.0/0"
  ip_protocol       = "tcp"
  from_port         = 443
  to_port           = 443
}

resource "aws_lb" "this" {
  #checkov:skip=CKV_AWS_91:Access logs of a load balancer would need a bucket of their own; the server logs requests
  #checkov:skip=CKV_AWS_150:Protection from destroy is a variable
  name               = var.name
  load_balancer_type = "network"
  internal           = var.internal
  subnets            = coalesce(var.load_balancer_subnet_ids, var.subnet_ids)
  security_groups    = [aws_security_group.load_balancer.id]
  # With few tasks, a zone may have no task.
  enable_cross_zone_load_balancing = true
  enable_deletion_protection       = var.deletion_protection
  tags                             = var.tags
}

resource "aws_lb_target_group" "this" {
  #checkov:skip=CKV_AWS_378:TLS ends at the load balancer; only it reaches the tasks
  name                   = var.name
  vpc_id                 = var.vpc_id
  target_type            = "ip"
  protocol               = "TCP"
  port                   = local.port
  deregistration_delay   = 60
  connection_termination = true
  # The server throttles addresses that guess passwords and limits connections per address: both need the client's address.
  preserve_client_ip = true
  tags               = var.tags

  health_check {
    protocol            = "HTTP"
    path                = "/health"
    port                = "traffic-port"
    matcher             = "200"
    interval            = 10
    timeout             = 5
    healthy_threshold   = 2
    unhealthy_threshold = 3
  }
}

resource "aws_lb_listener" "this" {
  load_balancer_arn = aws_lb.this.arn
  port              = var.port
  protocol          = "TLS"
  certificate_arn   = var.certificate_arn
  ssl_policy        = "ELBSecurityPolicy-TLS13-1-2-2021-06"
  # gRPC clients require that HTTP/2 is negotiated in the TLS handshake; HTTP/1.1 clients are accepted too.
  alpn_policy = "HTTP2Preferred"
  tags        = var.tags

  default_action {
    type             = "forward"
    target_group_arn = aws_lb_target_group.this.arn
  }
}

resource "aws_route53_record" "this" {
  count = var.zone_id == null ? 0 : 1

  zone_id = var.zone_id
  name    = var.hostname
  type    = "A"

  alias {
    name                   = aws_lb.this.dns_name
    zone_id                = aws_lb.this.zone_id
    evaluate_target_health = false
  }
}

resource "aws_service_discovery_private_dns_namespace" "this" {
  count = var.namespace == null ? 0 : 1

  name        = var.namespace
  description = "Tidelake"
  vpc         = var.vpc_id
  tags        = var.tags
}

resource "aws_service_discovery_service" "this" {
  count = var.namespace == null ? 0 : 1

  name          = var.name
  force_destroy = true
  tags          = var.tags

  dns_config {
    namespace_id   = aws_service_discovery_private_dns_namespace.this[0].id
    routing_policy = "MULTIVALUE"

    dns_records {
      type = "A"
      ttl  = 10
    }
  }
}

resource "aws_vpc_endpoint" "s3" {
  count = length(var.s3_endpoint_route_tables) > 0 ? 1 : 0

  vpc_id            = var.vpc_id
  vpc_endpoint_type = "Gateway"
  service_name      = "com.amazonaws.${local.region}.s3"
  route_table_ids   = var.s3_endpoint_route_tables
  tags              = var.tags
}
