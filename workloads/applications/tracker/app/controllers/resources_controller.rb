# frozen_string_literal: true

# What every kind of record can do: be listed, searched, sorted and paged, shown, and changed,
# as a page, as JSON and as CSV. A subclass says which model, columns and fields.
class ResourcesController < ApplicationController
  class_attribute :model, :columns, :fields, :searched, :preloaded, default: []
  before_action :require_login, except: %i[index show board report]
  helper_method :model, :columns, :record, :page, :pages

  PAGE = 50

  def index
    @records = listed.includes(preloaded).order(sorting).limit(PAGE).offset((page - 1) * PAGE)
    respond_to do |format|
      format.html { render "resources/index" }
      format.json { render json: { page:, pages:, records: @records.map { |record| as_data(record) } } }
      format.csv { render plain: as_csv, content_type: "text/csv" }
    end
  end

  def show
    respond_to do |format|
      format.html { render template_exists?("show", controller_path) ? "#{controller_path}/show" : "resources/show" }
      format.json { render json: as_data(record) }
    end
  end

  def new
    @record = model.new
    render "resources/new"
  end

  def edit = render("resources/edit")

  def create
    @record = model.new(permitted)
    return redirect_to(@record, notice: "#{model.model_name.human} was created.") if @record.save

    render "resources/new", status: :unprocessable_entity
  end

  def update
    return redirect_to(record, notice: "#{model.model_name.human} was changed.") if record.update(permitted)

    render "resources/edit", status: :unprocessable_entity
  end

  def destroy
    record.destroy!
    redirect_to polymorphic_path(model), notice: "#{model.model_name.human} was removed.", status: :see_other
  end

  private

  def record = @record ||= model.includes(preloaded).find(params[:id])

  def page = [params[:page].to_i, 1].max

  def pages = @pages ||= [(listed.count.to_f / PAGE).ceil, 1].max

  def listed
    @listed ||= [filtered, words].compact.reduce(model.all) { |found, part| found.merge(part) }
  end

  # ?status_id=3&user_id=9
  def filtered = model.where(params.permit(*fields).to_h.slice(*model.column_names))

  # ?q=two+words: every word in one of the searched columns.
  def words
    asked = params[:q].to_s.split.first(5)
    return if asked.empty? || searched.empty?

    asked.map do |word|
      searched.map { |column| model.where(model.arel_table[column].matches("%#{model.sanitize_sql_like(word)}%")) }.reduce(:or)
    end.reduce(:and)
  end

  def sorting
    column = params[:sort] if model.column_names.include?(params[:sort])
    [{ (column || "id") => params[:down] ? :desc : :asc }, (:id if column)].compact.first
  end

  def permitted = params.require(model.model_name.param_key).permit(*fields)

  def as_data(record)
    { id: record.id, name: record.name, **fields.index_with { |field| record.public_send(field) },
      **preloaded.index_with { |owner| record.public_send(owner)&.slice(:id, :name) },
      url: polymorphic_path(record) }
  end

  def as_csv
    [["id", *fields], *@records.map { |record| [record.id, *fields.map { |field| record.public_send(field) }] }]
      .map { |row| row.map { |cell| %("#{cell.to_s.gsub('"', '""')}") }.join(",") }.join("\n")
  end
end
