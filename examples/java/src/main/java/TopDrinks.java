import static java.util.concurrent.TimeUnit.SECONDS;

import java.io.IOException;
import java.net.Socket;
import java.net.URI;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeoutException;
import java.util.logging.Logger;
import org.apache.beam.fn.harness.ExternalWorkerService;
import org.apache.beam.sdk.Pipeline;
import org.apache.beam.sdk.PipelineResult;
import org.apache.beam.sdk.PipelineResult.State;
import org.apache.beam.sdk.extensions.python.PythonExternalTransform;
import org.apache.beam.sdk.io.TextIO;
import org.apache.beam.sdk.metrics.Counter;
import org.apache.beam.sdk.metrics.MetricQueryResults;
import org.apache.beam.sdk.metrics.Metrics;
import org.apache.beam.sdk.options.Description;
import org.apache.beam.sdk.options.ExperimentalOptions;
import org.apache.beam.sdk.options.PipelineOptionsFactory;
import org.apache.beam.sdk.options.PortablePipelineOptions;
import org.apache.beam.sdk.options.Validation.Required;
import org.apache.beam.sdk.schemas.Schema;
import org.apache.beam.sdk.schemas.Schema.FieldType;
import org.apache.beam.sdk.transforms.FlatMapElements;
import org.apache.beam.sdk.transforms.MapElements;
import org.apache.beam.sdk.values.PCollection;
import org.apache.beam.sdk.values.Row;
import org.apache.beam.sdk.values.TypeDescriptors;

/** Ranks the drinks of a CSV file of "user,drink" lines, and writes "rank,drink" lines. */
public class TopDrinks {
  /** The places of this pipeline, beside Beam's own options. */
  public interface Options extends PortablePipelineOptions {
    @Description("HOST:PORT of `private-topk expansion-service`")
    @Required
    String getExpansion();

    void setExpansion(String address);

    @Description("The CSV file, without a header")
    @Required
    String getInput();

    void setInput(String path);

    @Description("What the names of the files of the ranking begin with")
    @Required
    String getOutput();

    void setOutput(String path);

    @Description("Parameters of the ranking as JSON, in place of those below")
    Map<String, Object> getParameters();

    void setParameters(Map<String, Object> parameters);

    @Description("Run the pipeline without releasing or writing anything, and print what would be dropped")
    boolean getDryRun();

    void setDryRun(boolean dryRun);
  }

  private static final Schema ORDER =
      Schema.builder().addStringField("user").addStringField("item").build();

  // What Beam leaves open after a good job, gRPC tells in 40 lines of SEVERE. A level would not outlive Beam's workers.
  private static final Logger FORGOTTEN_CHANNELS =
      Logger.getLogger("org.apache.beam.vendor.grpc.v1p69p0.io.grpc.internal.ManagedChannelOrphanWrapper");

  private static final Counter UNREADABLE = Metrics.counter("orders", "operator_only_unreadable_lines");

  // Named as in docs/java.md.
  private static final Map<String, Object> PARAMETERS =
      Map.of(
          "k", 2,
          "epsilon", 10.0,
          "domain", new ArrayList<>(List.of("tea", "cake", "scone", "coffee")),
          "max_items_per_user", 2);

  public static void main(String[] args) throws Exception {
    run(pipeline(args), "the drinks");
  }

  /** Ends with status 1 if the job was not done, or of a dry run if one of the rankings, in their order, has no row. */
  static void run(Pipeline pipeline, Object... rankings) throws Exception {
    var options = pipeline.getOptions().as(Options.class);
    var result = pipeline.run();
    var state = waitFor(result, options.getExpansion());
    System.out.println(state);
    if (state != State.DONE) {
      System.exit(1);
    }
    var metrics = result.metrics().allMetrics();
    printLosses(metrics);
    var refused = options.getDryRun() ? numbers(metrics, "operator_only_workers_that_drew") : new TreeSet<Integer>();
    refused.removeAll(numbers(metrics, "operator_only_workers_with_rows_left"));
    for (int number : refused) {
      System.err.println("no row of " + rankings[number] + " would be ranked: nothing but noise");
    }
    System.exit(refused.isEmpty() ? 0 : 1); // the worker's server has threads of its own
  }

  /** How a job ended. It is cancelled where the expansion service has ended, which a runner may not tell. */
  static State waitFor(PipelineResult result, String service) throws Exception {
    var end = CompletableFuture.supplyAsync(result::waitUntilFinish);
    var address = URI.create("tcp://" + service);
    while (true) {
      try {
        return end.get(10, SECONDS);
      } catch (TimeoutException running) {
        try {
          new Socket(address.getHost(), address.getPort()).close();
        } catch (IOException gone) {
          System.err.println("the expansion service has ended, and the job cannot: it is cancelled");
          return result.cancel();
        }
      }
    }
  }

  /** The numbers of the rankings that have a counter, from 0. */
  private static Set<Integer> numbers(MetricQueryResults metrics, String counter) {
    var found = new TreeSet<Integer>();
    for (var each : metrics.getCounters()) {
      if (each.getName().getName().equals(counter)) {
        found.add(Integer.valueOf(each.getKey().stepName().replaceAll(".*external(\\d+)\\W.*", "$1")));
      }
    }
    return found;
  }

  /** Prints, for the operator only, what was dropped and left, and which windows and groups are only noise. */
  private static void printLosses(MetricQueryResults metrics) {
    for (var kind : List.of(metrics.getCounters(), metrics.getStringSets())) {
      for (var found : kind) {
        String name = found.getName().getName();
        if (name.matches(".*(unreadable|dropped_rows|only_rows_left|of_nothing).*")) {
          String what = name.endsWith("of_nothing") ? "ONLY NOISE: " : name.contains("left") ? "left: " : "dropped: ";
          System.out.println(what + found.getKey().stepName() + " " + name + " " + found.getAttempted());
        }
      }
    }
  }

  /** What was read of a line, if anything: one person's line must not end a job that is paid for. */
  static List<Row> counted(Optional<Row> read) {
    if (read.isEmpty()) {
      UNREADABLE.inc();
    }
    return read.stream().toList();
  }

  static Pipeline empty(String... args) throws Exception {
    FORGOTTEN_CHANNELS.setFilter(record -> false);
    Options options = PipelineOptionsFactory.fromArgs(args).withValidation().as(Options.class);
    // What LOOPBACK does, but earlier: Beam needs the address of Java's workers when it expands RankRows.
    var worker = new ExternalWorkerService(options).start();
    options.setDefaultEnvironmentType("EXTERNAL");
    options.setDefaultEnvironmentConfig(worker.getApiServiceDescriptor().getUrl());
    // Else Prism splits what is being counted, and counts come twice.
    ExperimentalOptions.addExperiment(options.as(ExperimentalOptions.class), "prism_disable_sdf_split");
    return Pipeline.create(options);
  }

  static PythonExternalTransform<PCollection<Row>, PCollection<Row>> rank(
      Options options, Map<String, Object> parameters) {
    var given = new HashMap<>(parameters);
    if (options.getDryRun()) {
      given.put("dry_run", true);
      given.put("exact_counters", true);
    }
    return PythonExternalTransform.<PCollection<Row>, PCollection<Row>>from(
            "private_topk.pipelines.beam_yaml.RankRows", options.getExpansion())
        .withTypeHint(ArrayList.class, FieldType.array(FieldType.STRING))
        .withTypeHint(LinkedHashMap.class, FieldType.map(FieldType.STRING, FieldType.STRING))
        .withKwargs(given);
  }

  /** Writes lines, but of a dry run none, which would take the place of others. */
  static void write(Options options, PCollection<String> lines, String top) {
    if (!options.getDryRun()) {
      lines.apply("Write " + top, TextIO.write().to(top).withNumShards(1));
    }
  }

  static Pipeline pipeline(String... args) throws Exception {
    Pipeline pipeline = empty(args);
    Options options = pipeline.getOptions().as(Options.class);
    PCollection<Row> orders =
        pipeline
            .apply("Read orders", TextIO.read().from(options.getInput()))
            .apply("As rows", FlatMapElements.into(TypeDescriptors.rows()).via(line -> counted(order(line))))
            .setRowSchema(ORDER);
    Map<String, Object> given = options.getParameters();
    PCollection<String> lines =
        orders
            .apply("Rank", rank(options, given == null ? PARAMETERS : given))
            .apply(
                "As lines",
                MapElements.into(TypeDescriptors.strings())
                    .via(row -> row.getInt64("rank") + "," + row.getString("item")));
    write(options, lines, options.getOutput());
    return pipeline;
  }

  private static Optional<Row> order(String line) {
    String[] parts = line.split(",", 2);
    if (parts.length < 2) {
      return Optional.empty();
    }
    return Optional.of(Row.withSchema(ORDER).addValues(parts[0], parts[1]).build());
  }
}
