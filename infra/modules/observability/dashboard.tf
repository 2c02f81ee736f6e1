data "aws_region" "current" {}

locals {
  names = sort([for function in var.functions : function.name])

  # A graph: title, metrics as (namespace, metric, dimension, value, statistic), and unit of the axis.
  graphs = [for graph in concat(
    [
      { title = "Rows written", unit = "rows", metrics = [for n in local.names : [local.namespace, "RowsWritten", "FunctionName", n, { stat = "Sum" }]] },
      { title = "Bytes put", unit = "bytes", metrics = [for n in local.names : [local.namespace, "BytesPut", "FunctionName", n, { stat = "Sum" }]] },
      { title = "Segments put", unit = "segments", metrics = [for n in local.names : [local.namespace, "Segments", "FunctionName", n, { stat = "Sum" }]] },
      { title = "Failures", unit = "failures", metrics = [for n in local.names : [local.namespace, "Failures", "FunctionName", n, { stat = "Sum" }]] },
      { title = "Invocations", unit = "invocations", metrics = [for n in local.names : ["AWS/Lambda", "Invocations", "FunctionName", n, { stat = "Sum" }]] },
      { title = "Errors and throttles", unit = "invocations", metrics = flatten([for metric in ["Errors", "Throttles"] : [for n in local.names : { row = ["AWS/Lambda", metric, "FunctionName", n, { stat = "Sum" }] }]])[*].row },
      { title = "Duration, 99 of 100", unit = "ms", metrics = [for n in local.names : ["AWS/Lambda", "Duration", "FunctionName", n, { stat = "p99" }]] },
      { title = "Invocations at once", unit = "invocations", metrics = [for n in local.names : ["AWS/Lambda", "ConcurrentExecutions", "FunctionName", n, { stat = "Maximum" }]] },
    ],
    [
      for graph in [
        { title = "Lag of the log", unit = "seconds", metrics = [[local.namespace, "LogLagSeconds", "FunctionName", local.compactor, { stat = "Maximum" }]] },
        { title = "Segments not folded", unit = "segments", metrics = [[local.namespace, "UnfoldedSegments", "FunctionName", local.compactor, { stat = "Maximum" }]] },
        { title = "Files", unit = "files", metrics = [[local.namespace, "Files", "FunctionName", local.compactor, { stat = "Maximum" }]] },
        { title = "Compaction debt", unit = "files", metrics = [[local.namespace, "CompactionDebt", "FunctionName", local.compactor, { stat = "Maximum" }]] },
      ] : graph if var.compaction != null
    ],
    [
      {
        title = "Messages waiting", unit = "messages",
        metrics = [
          for queue in concat(compact([var.queue_name]), values(var.dead_letters)) :
          ["AWS/SQS", "ApproximateNumberOfMessagesVisible", "QueueName", queue, { stat = "Maximum" }]
        ]
      },
    ],
  ) : graph if length(graph.metrics) > 0]

  # Two graphs per row on a grid of width 24.
  dashboard = jsonencode({
    widgets = [
      for index, graph in local.graphs : {
        type   = "metric"
        x      = 12 * (index % 2)
        y      = 6 * floor(index / 2)
        width  = 12
        height = 6
        properties = {
          title   = graph.title
          region  = data.aws_region.current.name
          view    = "timeSeries"
          period  = 300
          metrics = graph.metrics
          yAxis   = { left = { min = 0, label = graph.unit } }
        }
      }
    ]
  })
}

resource "aws_cloudwatch_dashboard" "this" {
  count = var.dashboard ? 1 : 0

  dashboard_name = var.name
  dashboard_body = local.dashboard
}
