import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.logging.Logger;
import org.apache.beam.fn.harness.ExternalWorkerService;
import org.apache.beam.sdk.Pipeline;
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

    @Description("Build the pipeline, which looks at fields and parameters, and do not run it")
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
    run(pipeline(args));
  }

  static void run(Pipeline pipeline) {
    if (!pipeline.getOptions().as(Options.class).getDryRun()) {
      var result = pipeline.run();
      System.out.println(result.waitUntilFinish());
      printLosses(result.metrics().allMetrics());
    }
    System.exit(0); // the worker's server has threads of its own
  }

  /** Prints, for the operator only, what was dropped, and which windows and groups are only noise. */
  private static void printLosses(MetricQueryResults metrics) {
    for (var kind : List.of(metrics.getCounters(), metrics.getStringSets())) {
      for (var found : kind) {
        String name = found.getName().getName();
        if (name.matches(".*(unreadable|dropped_rows|of_nothing).*")) {
          String loud = name.endsWith("of_nothing") ? "ONLY NOISE: " : "dropped: ";
          System.out.println(loud + found.getKey().stepName() + " " + name + " " + found.getAttempted());
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
    return PythonExternalTransform.<PCollection<Row>, PCollection<Row>>from(
            "private_topk.pipelines.beam_yaml.RankRows", options.getExpansion())
        .withTypeHint(ArrayList.class, FieldType.array(FieldType.STRING))
        .withTypeHint(LinkedHashMap.class, FieldType.map(FieldType.STRING, FieldType.STRING))
        .withKwargs(parameters);
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
    orders
        .apply("Rank", rank(options, given == null ? PARAMETERS : given))
        .apply(
            "As lines",
            MapElements.into(TypeDescriptors.strings())
                .via(row -> row.getInt64("rank") + "," + row.getString("item")))
        .apply("Write", TextIO.write().to(options.getOutput()).withNumShards(1));
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
