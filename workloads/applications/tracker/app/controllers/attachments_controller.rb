# frozen_string_literal: true

class AttachmentsController < ResourcesController
  self.model = Attachment
  self.columns = %i[issue user name content_type bytes]
  self.fields = %i[issue_id user_id name content_type bytes]
  self.searched = %i[name content_type]
  self.preloaded = %i[issue user]
end
