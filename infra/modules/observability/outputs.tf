output "topic_arn" {
  description = "ARN of the alarm topic; null without alarms."
  value       = try(aws_sns_topic.this[0].arn, null)
}

output "dashboard_name" {
  description = "Name of the dashboard; null if there is none."
  value       = try(aws_cloudwatch_dashboard.this[0].dashboard_name, null)
}

output "dashboard_body" {
  description = "Body of the dashboard, as JSON."
  value       = local.dashboard
}

output "alarms" {
  description = "Names of the alarms."
  value = sort(concat(
    values(aws_cloudwatch_metric_alarm.errors)[*].alarm_name,
    values(aws_cloudwatch_metric_alarm.throttles)[*].alarm_name,
    values(aws_cloudwatch_metric_alarm.duration)[*].alarm_name,
    values(aws_cloudwatch_metric_alarm.failures)[*].alarm_name,
    values(aws_cloudwatch_metric_alarm.dead_letters)[*].alarm_name,
    aws_cloudwatch_metric_alarm.corrupt[*].alarm_name,
    aws_cloudwatch_metric_alarm.lag[*].alarm_name,
    aws_cloudwatch_metric_alarm.silence[*].alarm_name,
    aws_cloudwatch_metric_alarm.stream_age[*].alarm_name,
  ))
}
