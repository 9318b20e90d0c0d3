// ggml's mul_mat: one vector, and a chunk of 512, by weight format; in the layout that a file has and in
// those that llama.cpp rearranges matrices to when it loads them.
#include "bench/linear_shapes.h"
#include "bench/peer/ggml_fill.h"
#include "bench/peer/peer_row.h"

namespace ropeline {

namespace {

using ggml::Tensor;
using ggml::Type;

constexpr size_t kWidth = 3072, kFfnWidth = 8192;  // Llama 3.2 3B

struct Product {
  const char* dtype;
  size_t rows, cols, n;
};

int64_t Int(size_t n) { return static_cast<int64_t>(n); }

BuildGraph Build(const Product& product, ggml::BufferType* layout) {
  const Type type = *GgmlType(product.dtype);
  return [=](GgmlSession& session, size_t operations) {
    const ggml::Api& api = session.Library().Functions();
    std::vector<char> bytes(api.ggml_row_size(type, Int(product.cols)) * product.rows);
    FillRows(session.Library(), type, product.cols, product.rows, 1, bytes.data());
    Tensor* x = session.New(Type::kF32, Int(product.cols), Int(product.n));
    FillRows(session.Library(), Type::kF32, product.cols, product.n, 2, session.Data(x));
    for (size_t i = 0; i < operations; ++i) {
      Tensor* matrix;
      if (layout == nullptr) {
        matrix = session.New(type, Int(product.cols), Int(product.rows));
        std::copy(bytes.begin(), bytes.end(), static_cast<char*>(session.Data(matrix)));
      } else {
        matrix = session.NewRepacked(layout, type, Int(product.cols), Int(product.rows), bytes.data());
        if (matrix == nullptr)
          throw PeerUnusable("--ggml: a layout it offered is refused, expected it again");
      }
      session.MulMat(matrix, x);
    }
  };
}

// Has this layout a product of that format?
bool Takes(const Plan& plan, ggml::BufferType* layout, const Product& product) {
  const Type type = *GgmlType(product.dtype);
  constexpr size_t kFew = 64;  // rows
  std::vector<char> bytes(plan.ggml->Functions().ggml_row_size(type, Int(product.cols)) * kFew);
  GgmlSession session(plan.ggml, {});
  return session.NewRepacked(layout, type, Int(product.cols), Int(kFew), bytes.data()) != nullptr;
}

std::string LowerCase(std::string text) {
  for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return text;
}

}  // namespace

void AddGgmlProducts(const Plan& plan, std::vector<Row>* rows, std::vector<SkippedRow>* skipped) {
  const ggml::Api& api = plan.ggml->Functions();
  std::vector<Product> products;
  for (const char* dtype : {"f16", "q8_0", "q4_0", "q4_K", "q6_K"}) {
    products.push_back({dtype, kFfnWidth, kWidth, 1});
  }
  for (const char* dtype : {"f32", "f16", "q8_0", "q4_0", "q4_K", "q6_K"}) {
    products.push_back({dtype, kHotLinear.rows, kHotLinear.cols, kHotLinear.n});
  }
  for (const Product& product : products) {
    const double row_bytes =
        static_cast<double>(api.ggml_row_size(*GgmlType(product.dtype), Int(product.cols)));
    for (const int threads : plan.threads) {
      const Row like =
          ProductRow(plan, product.dtype, row_bytes / static_cast<double>(product.cols), product.rows,
                     product.cols, product.n, product.n == 1 ? Cache::kCold : Cache::kHot, threads);
      rows->push_back(GgmlRow(plan, like, Build(product, nullptr)));
      for (ggml::BufferType* layout : plan.ggml->ExtraBufferTypes()) {
        Row repacked = like;
        repacked.name.args.insert(repacked.name.args.end() - 2,
                                  {"layout", LowerCase(api.ggml_backend_buft_name(layout))});
        if (!Takes(plan, layout, product)) {
          repacked.name.peer = plan.ggml->PeerName();
          if (threads == plan.threads.front()) {
            skipped->push_back({repacked.name, "ggml has no product of that format in that layout here"});
          }
          continue;
        }
        rows->push_back(GgmlRow(plan, repacked, Build(product, layout)));
      }
    }
  }
}

}  // namespace ropeline
